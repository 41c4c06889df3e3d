// The timeline: what memory was held for, by category, line or origin, over time. Hover tells, a click chooses the
// instant that the other views show, dragging zooms; keys do the same.
// Groups of a place summed up by a key: [{name, bytes, color, idle, follow}], the largest at the bottom.
function seriesOf(place, by) {
  const sums = new Map();
  let idle = null;
  for (const group of place.groups) {
    if (group.part === PART.idleCache) {
      idle = group;
      continue;
    }
    const key = by === 'category' ? group.category : group.part === PART.otherStacks ? -1
              : by === 'line' ? group.line : data.lines.origin[group.line];
    if (!sums.has(key)) sums.set(key, {key, bytes: new Float64Array(place.time.length), all: 0, most: 0});
    const sum = sums.get(key);
    for (let i = 0; i < group.bytes.length; ++i) sum.bytes[i] += group.bytes[i];
  }
  let list = [...sums.values()];
  for (const sum of list) for (const bytes of sum.bytes) sum.most = Math.max(sum.most, bytes);
  // Categories are in an order already: what stays longest lies at the bottom.
  if (by === 'category') list.sort((a, b) => a.key - b.key);
  else
    list.sort((a, b) => b.bytes[place.peak] - a.bytes[place.peak] || b.most - a.most || a.key - b.key);
  const isRest = ({key}) => key < 0 || (by === 'line' && lineColor(place, key) === seriesColor(SERIES_COLORS - 1));
  const rest = list.filter(isRest);
  list = list.filter((sum) => !isRest(sum));
  const series = list.map(({key, bytes}) => describeSeries(place, by, key, bytes));
  if (rest.length > 0) series.push(restSeries(place, rest, new Set(list.map(({key}) => key)), by));
  if (idle) series.push({name: 'idle in PyTorch’s cache', bytes: idle.bytes, color: 'var(--idle)', idle: true});
  return series.filter(({bytes}) => bytes.some((value) => value > 0));
}

function describeSeries(place, by, key, bytes) {
  switch (by) {
    case 'category':
      return {name: data.categories[key], bytes, color: categoryColor(key), test: (block) => block.category === key};
    case 'line':
      return {name: lineText(key), bytes, color: lineColor(place, key), test: (block) => block.line === key};
    default:
      return {name: ORIGINS[key], bytes, color: originColor(key), test: (block) => data.lines.origin[block.line] === key};
  }
}

function restSeries(place, rest, told, by) {
  const bytes = new Float64Array(place.time.length);
  for (const sum of rest) for (let i = 0; i < bytes.length; ++i) bytes[i] += sum.bytes[i];
  return {name: by === 'line' ? 'all other lines' : 'other stacks', bytes, color: seriesColor(SERIES_COLORS - 1),
          test: (block) => by === 'line' ? !told.has(block.line) : false};
}

// Most of what happened came in a short part of the time: a time axis would show little.
function isBurst(place) {
  const {time} = place, whole = time[time.length - 1] - time[0];
  const share = Math.floor(time.length * 0.6);
  for (let i = 0; i + share < time.length; ++i) if (time[i + share] - time[i] < whole / 6) return true;
  return false;
}

function buildTimeline(section) {
  const view = {x: isBurst(currentPlace()) ? 'events' : 'time', from: 0, to: 0};
  let series = [], scales = null, width = 0, cursor = null, dragged = null;
  const place = () => currentPlace();
  const chart = element('svg:svg', {class: 'chart', tabindex: '0', role: 'application',
                                    'aria-roledescription': 'timeline', 'aria-describedby': 'timeline-help'});
  const legend = element('ul', {class: 'legend', 'aria-label': 'What the colours are, at the chosen instant'});
  const chosen = element('p', {class: 'chosen'});
  const named = element('div', {class: 'choice named'});
  const reset = button('Whole run', () => zoomTo(0, place().time.length - 1), {class: 'quiet', disabled: true});

  function zoomTo(from, to) {
    const last = place().time.length - 1;
    const room = Math.min(2, last);
    view.from = Math.max(0, Math.min(from, last - room));
    view.to = Math.min(last, Math.max(to, view.from + room));
    reset.disabled = view.from === 0 && view.to === last;
    redraw();
  }

  function zoomBy(factor) {
    const half = (view.to - view.from) * factor / 2;
    const inView = state.instant >= view.from && state.instant <= view.to;
    const middle = inView ? state.instant : (view.from + view.to) / 2;
    zoomTo(Math.round(middle - half), Math.round(middle + half));
  }

  function redraw() {
    if (width === 0) return;
    scales = timelineScales(place(), view, width);
    chart.setAttribute('viewBox', `0 0 ${width} ${CHART.height}`);
    chart.replaceChildren();
    drawAxes(chart, place(), view, scales, width);
    drawAreas(chart, place(), view, scales, series);
    drawSteps(chart, place(), view, scales);
    drawCapacity(chart, place(), scales, width);
    drawNamed(chart, place(), view, scales, width);
    cursor = element('svg:line', {class: 'cursor', y1: CHART.top, y2: CHART.height - CHART.bottom});
    dragged = element('svg:rect', {class: 'dragged', y: CHART.top, height: CHART.height - CHART.top - CHART.bottom, width: 0});
    chart.append(cursor, dragged);
    moveCursor();
  }

  function moveCursor() {
    if (!cursor) return;
    const inView = state.instant >= view.from && state.instant <= view.to;
    cursor.style.setProperty('display', inView ? 'inline' : 'none');
    const x = scales.at(state.instant);
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
  }

  function describe() {
    const name = instantName(place(), state.instant), total = place().total[state.instant];
    chosen.replaceChildren('Chosen: ', element('b', {}, name), ' · ', element('b', {}, formatBytes(total)),
                           place().tensors ? ' held from the driver' : ' held');
    chart.setAttribute('aria-label', `Memory of ${place().name} over time. Chosen: ${name}, ${formatBytes(total)}`);
    for (const node of named.children)
      node.setAttribute('aria-pressed', String(Number(node.dataset.instant) === state.instant));
    const most = Math.max(...series.map(({bytes}) => bytes[state.instant]), 1);
    legend.replaceChildren(...[...series].reverse().map((entry) => {
      const bytes = entry.bytes[state.instant];
      const content = [element('i', {class: entry.idle ? 'swatch idle' : 'swatch', vars: {'--color': entry.color}}),
                       element('span', {class: 'name'}, entry.name),
                       element('span', {class: 'bar', 'aria-hidden': 'true', vars: {'--share': `${100 * bytes / most}%`, '--color': entry.color}}),
                       element('span', {class: 'bytes'}, formatBytes(bytes))];
      const at = state.instant, where = place();
      return element('li', {}, entry.test
          ? element('button', {type: 'button', title: 'Show the blocks', onclick: () => showBlocks(
                `${entry.name}, ${instantName(where, at)}`, (block) => heldAt(block, where, at) && entry.test(block), {bytes})}, content)
          : element('span', {class: 'plain'}, content));
    }));
  }

  function rebuild() {
    series = seriesOf(place(), state.by);
    named.replaceChildren(...place().named.map(({name, instant}) =>
        button(name, () => chooseInstant(instant), {'data-instant': instant})));
    view.from = 0;
    view.to = place().time.length - 1;
    reset.disabled = true;
    redraw();
    describe();
  }

  function tipAt(event) {
    const box = chart.getBoundingClientRect();
    const instant = instantAtX(place(), view, scales, event.clientX - box.left);
    const rows = [...series].reverse().filter(({bytes}) => bytes[instant] > 0).map(({name, bytes, color}) =>
        [name, formatBytes(bytes[instant]), color]);
    showTip([element('p', {}, element('b', {}, instantName(place(), instant))), tipRows(rows),
             element('p', {class: 'sum'}, `${formatBytes(place().total[instant])} in all`)], event.clientX, event.clientY);
  }

  listenToPointer(chart, {
    xOf: (event) => event.clientX - chart.getBoundingClientRect().left,
    hover: tipAt,
    drag: (begin, x) => {
      dragged.setAttribute('x', Math.min(begin, x));
      dragged.setAttribute('width', Math.abs(x - begin));
    },
    click: (x) => chooseInstant(instantAtX(place(), view, scales, x)),
    range: (begin, end) => zoomTo(instantAtX(place(), view, scales, begin), instantAtX(place(), view, scales, end)),
  });
  chart.addEventListener('dblclick', () => zoomTo(0, place().time.length - 1));
  chart.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const by = event.shiftKey ? 10 : 1;
    const actions = {
      ArrowLeft: () => chooseInstant(state.instant - by), ArrowRight: () => chooseInstant(state.instant + by),
      Home: () => chooseInstant(0), End: () => chooseInstant(place().time.length - 1),
      p: () => chooseInstant(place().peak), '+': () => zoomBy(0.5), '=': () => zoomBy(0.5), '-': () => zoomBy(2),
      Escape: () => zoomTo(0, place().time.length - 1), 0: () => zoomTo(0, place().time.length - 1),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
    announce(`${instantName(place(), state.instant)}, ${formatBytes(place().total[state.instant])}`);
  });

  const placeChoice = places.length > 1
      ? choice('Place', places.map(({name}, index) => [index, name]), state.place, (value) => choosePlace(Number(value))) : null;
  section.append(
      heading('timeline', 'Memory over time'),
      element('div', {class: 'controls'}, placeChoice ? placeChoice.node : '',
              choice('Colours by', [['category', 'Category'], ['line', 'Line'], ['origin', 'Whose code']], state.by, chooseColors).node,
              choice('Axis', [['time', 'Time axis'], ['events', 'Event axis']], view.x, (value) => {
                view.x = value;
                redraw();
              }).node,
              reset),
      element('div', {class: 'frame'}, chart),
      element('p', {class: 'help', id: 'timeline-help'},
              'Click: look at an instant, here and in the views below. Drag: zoom. Keys: ← → move, + − zoom, P peak, Esc whole run.'),
      element('div', {class: 'controls'}, named, chosen), legend);
  onChange(['place'], () => {
    if (placeChoice) placeChoice.mark(state.place);
    rebuild();
  });
  onChange(['colors'], () => {
    series = seriesOf(place(), state.by);
    redraw();
    describe();
  });
  onChange(['instant'], () => {
    if (state.instant < view.from || state.instant > view.to) zoomTo(0, place().time.length - 1);
    moveCursor();
    describe();
  });
  drawnAtWidth(chart.parentNode, (now) => {
    width = now;
    redraw();
  });
  rebuild();
}

// A press that moves is a range, one that does not is a click. Fingers scroll the page up and down as ever.
function listenToPointer(node, {xOf, hover, drag, click, range}) {
  const threshold = 6;
  let begin = null;
  node.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    begin = xOf(event);
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener('pointermove', (event) => {
    hover(event);
    if (begin !== null && Math.abs(xOf(event) - begin) > threshold) drag(begin, xOf(event));
  });
  node.addEventListener('pointerup', (event) => {
    if (begin === null) return;
    const from = begin, to = xOf(event);
    begin = null;
    drag(0, 0);
    if (Math.abs(to - from) > threshold) range(Math.min(from, to), Math.max(from, to));
    else click(to);
  });
  node.addEventListener('pointercancel', () => {
    begin = null;
    drag(0, 0);
  });
  node.addEventListener('pointerleave', hideTip);
}
