// The stacked areas of the timeline: series over time, a cursor at the chosen instant, marks for steps. Values are exact
// at each instant and hold until the next one.
const CHART = {height: 280, top: 14, right: 12, bottom: 26, left: 68};

// The range [from, to] of instants in view. x: 'time' or 'events' (every instant takes the same room).
function timelineScales(place, view, width) {
  const range = [CHART.left, width - CHART.right];
  const domain = view.x === 'time' ? [place.time[view.from], place.time[view.to]] : [view.from, view.to];
  if (domain[0] === domain[1]) domain[1] = domain[0] + 1;
  const x = d3.scaleLinear().domain(domain).range(range);
  let most = 0;
  for (let i = view.from; i <= view.to; ++i) most = Math.max(most, place.total[i]);
  const y = d3.scaleLinear().domain([0, most > 0 ? most * 1.04 : 1]).range([CHART.height - CHART.bottom, CHART.top]);
  const at = (instant) => x(view.x === 'time' ? place.time[instant] : instant);
  return {x, y, most, at};
}

// The instant that holds at a position: the last one not after it.
function instantAtX(place, view, scales, position) {
  const value = scales.x.invert(position);
  const found = view.x === 'time' ? d3.bisector((time) => time).right(place.time, value) - 1 : Math.round(value);
  return Math.max(view.from, Math.min(view.to, found));
}

// No more points than pixels: of the instants of one pixel the one with most in all.
function instantsInView(place, view, scales) {
  const kept = [];
  let pixel = -1;
  for (let i = view.from; i <= view.to; ++i) {
    const at = Math.floor(scales.at(i));
    if (at === pixel && kept.length > 0) {
      if (place.total[i] > place.total[kept[kept.length - 1]]) kept[kept.length - 1] = i;
      continue;
    }
    pixel = at;
    kept.push(i);
  }
  return kept;
}

function drawAreas(svg, place, view, scales, series) {
  const instants = instantsInView(place, view, scales);
  const base = new Float64Array(place.time.length);
  const layer = element('svg:g', {class: 'areas'});
  const area = d3.area().curve(d3.curveStepAfter).x(([at]) => at).y0(([, low]) => low).y1(([, , high]) => high);
  const end = scales.x.range()[1];
  for (const {bytes, color, idle} of series) {
    const points = instants.map((i) => {
      const low = base[i];
      base[i] += bytes[i];
      return [scales.at(i), scales.y(low), scales.y(base[i])];
    });
    if (points.length > 0) points.push([Math.max(end, points[points.length - 1][0]), ...points[points.length - 1].slice(1)]);
    layer.append(element('svg:path', {d: area(points), class: idle ? 'area idle' : 'area', vars: {'--color': color}}));
  }
  svg.append(layer);
}

function drawAxes(svg, place, view, scales, width) {
  const bottom = CHART.height - CHART.bottom;
  for (const tick of byteTicks(scales.y.domain()[1], 5)) {
    const y = Math.round(scales.y(tick)) + 0.5;
    svg.append(element('svg:line', {class: 'grid', x1: CHART.left, x2: width - CHART.right, y1: y, y2: y}),
               element('svg:text', {class: 'tick', x: CHART.left - 8, y: y + 4, 'text-anchor': 'end'}, formatByteTick(tick)));
  }
  const ticks = scales.x.ticks(Math.max(2, Math.floor(width / 140)));
  const spacing = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  for (const tick of ticks) {
    const x = scales.x(tick);
    if (view.x !== 'time' && !Number.isInteger(tick)) continue;
    const text = view.x === 'time' ? formatTick(tick, spacing) : formatTick(place.time[tick], 1e6);
    const anchor = x > width - 40 ? 'end' : 'middle';
    svg.append(element('svg:text', {class: 'tick', x, y: CHART.height - 8, 'text-anchor': anchor}, text),
               element('svg:line', {class: 'mark', x1: x, x2: x, y1: bottom, y2: bottom + 5}));
  }
}

// Where steps end, if there is room for the marks.
function drawSteps(svg, place, view, scales) {
  if (stepBoundaries.length === 0) return;
  const bottom = CHART.height - CHART.bottom, positions = [];
  if (view.x === 'time') {
    for (const time of stepBoundaries) positions.push(scales.x(time));
  } else {
    for (let i = Math.max(1, view.from); i <= view.to; ++i)
      if (place.step[i] !== place.step[i - 1]) positions.push(scales.at(i) - 0.5);
  }
  const [low, high] = scales.x.range();
  const inside = positions.filter((position) => position >= low && position <= high);
  if (inside.length === 0 || inside.length > (high - low) / 4) return;
  svg.append(element('svg:path', {class: 'steps', d: inside.map((x) => `M${x.toFixed(1)},${bottom}v-6`).join('')}));
}

function drawCapacity(svg, place, scales, width) {
  if (!place.capacity || place.capacity > scales.y.domain()[1]) return;
  const y = scales.y(place.capacity);
  svg.append(element('svg:line', {class: 'capacity', x1: CHART.left, x2: width - CHART.right, y1: y, y2: y}),
             element('svg:text', {class: 'tick', x: CHART.left + 6, y: y - 5}, `all of the device: ${formatBytes(place.capacity)}`));
}

// Names of the great moments above the areas; those that would overlap are left out (the buttons have them all).
function drawNamed(svg, place, view, scales, width) {
  const taken = [];
  const rank = ({name}) => (name.startsWith('refused') ? 0 : name === 'peak' ? 1 : 2);
  for (const {name, instant} of [...place.named].sort((a, b) => rank(a) - rank(b))) {
    if (instant < view.from || instant > view.to) continue;
    const x = scales.at(instant);
    svg.append(element('svg:line', {class: 'named', x1: x, x2: x, y1: CHART.top, y2: CHART.height - CHART.bottom}));
    const room = name.length * 6.6 + 8;
    const spot = [x, x - room].find((begin) => begin >= CHART.left && begin + room <= width - CHART.right + 8 &&
                                               taken.every(([from, to]) => begin >= to || begin + room <= from));
    if (spot === undefined) continue;
    const flip = spot < x;
    taken.push([spot, spot + room]);
    svg.append(element('svg:text', {class: 'name', x: flip ? x - 4 : x + 4, y: CHART.top - 3, 'text-anchor': flip ? 'end' : 'start'}, name));
  }
}
