// Where blocks lie in the segments that hold them, at the great moments.
const OWNERS = ['PyTorch’s cache', 'PyTorch’s cache, expandable', 'cuheap’s pool', 'by themselves, the driver’s'];
const BAR = 18;
const FEW_SEGMENTS = 40;   // that get a row each
const OVERVIEW_ROWS = 24;

function unfoldSegment([owner, address, bytes, used, count, numbers]) {
  const parts = [];
  for (let i = 0, offset = 0; i < numbers.length; i += 5) {
    const [size, what, second, row, inUse] = numbers.slice(i, i + 5);
    parts.push({offset, bytes: size, idle: what === -1, several: what === -2 ? second : 0, used: what === -2 ? inUse : what === -1 ? 0 : size,
                stack: what >= 0 ? what : null, category: what >= 0 ? second : null, block: row >= 0 ? row : null});
    offset += size;
  }
  return {owner, address: BigInt('0x' + address), bytes, used, count, parts};
}

const hexAddress = (address) => '0x' + address.toString(16).padStart(12, '0');

function partTip(segment, part) {
  const rows = [['segment', `${hexAddress(segment.address)}, ${formatBytes(segment.bytes)}, ${formatPercent(segment.used / segment.bytes)} used`],
                ['from', hexAddress(segment.address + BigInt(part.offset))], ['size', `${formatBytes(part.bytes)} (${formatExact(part.bytes)})`]];
  if (part.idle) return [element('p', {}, element('b', {}, 'Idle')), tipRows(rows)];
  if (part.several) {
    return [element('p', {}, element('b', {}, `${plural(part.several, 'small block')}`)),
            tipRows([...rows, ['in use', formatBytes(part.used)]])];
  }
  const line = data.stacks.line[part.stack];
  const block = part.block === null ? null : blocks[part.block];
  if (block && block.allocated !== null) rows.push(['allocated at', formatTime(block.allocated) + (stepName(block.step) ? `, ${stepName(block.step)}` : '')]);
  if (block) rows.push(['freed', block.freed === null ? 'never' : `at ${formatTime(block.freed)}`]);
  return [element('p', {}, element('b', {}, lineText(line))), element('p', {class: 'where'}, linePlace(line)),
          tipRows([['category', data.categories[part.category], categoryColor(part.category)], ...rows])];
}

function showPart(segment, part) {
  if (part.block !== null) {
    showBlocks(`the block at ${blocks[part.block].address}`, (block) => block.row === part.block, {blocks: 1, bytes: part.bytes});
  }
}

// Bars to one scale, `width` for the most bytes: widths compare.
function drawSegment(segment, most, width) {
  const whole = Math.max(8, width * segment.bytes / most);
  const scale = d3.scaleLinear().domain([0, segment.bytes]).range([0, whole]);
  const svg = element('svg:svg', {class: 'bar', viewBox: `0 0 ${whole} ${BAR}`, height: BAR, width: whole,
                                  role: 'img', 'aria-label': `${formatBytes(segment.used)} of ${formatBytes(segment.bytes)} in use`});
  for (const part of segment.parts) {
    const left = scale(part.offset), room = scale(part.offset + part.bytes) - left;
    const rect = element('svg:rect', {
      x: left, y: 0, width: Math.max(0.4, room - (room > 3 ? 0.8 : 0)), height: BAR,
      class: part.idle ? 'idle' : part.several ? 'several' : 'block',
      vars: {'--color': part.category === null ? 'var(--several)' : colorOf(currentPlace(), part.category, part.stack)}});
    rect.addEventListener('pointermove', (event) => showTip(partTip(segment, part), event.clientX, event.clientY));
    rect.addEventListener('pointerleave', hideTip);
    if (part.block !== null) rect.addEventListener('click', () => showPart(segment, part));
    svg.append(rect);
  }
  svg.append(element('svg:rect', {class: 'outline', x: 0.5, y: 0.5, width: Math.max(5, scale.range()[1] - 1), height: BAR - 1}));
  return svg;
}

function mapSummary(map, segments) {
  const inSegments = segments.filter(({owner}) => owner !== 3);
  const held = d3.sum(inSegments, ({bytes}) => bytes), used = d3.sum(inSegments, (segment) => segment.used);
  const holes = inSegments.flatMap(({used: inUse, parts}) => inUse > 0 ? parts.filter(({idle}) => idle) : []);
  const whole = d3.sum(inSegments.filter((segment) => segment.used === 0), ({bytes}) => bytes);
  if (inSegments.length === 0) return element('p', {}, 'No segments: every block is an allocation of the driver’s by itself.');
  return element('dl', {class: 'facts'}, [
    ['held', `${formatBytes(held)} in ${plural(inSegments.length, 'segment')}`],
    ['in use', `${formatBytes(used)} (${formatPercent(used / held)})`],
    ['idle in whole segments', formatBytes(whole)],
    ['idle beside blocks', `${formatBytes(held - used - whole)}, the largest hole ${formatBytes(d3.max(holes, ({bytes}) => bytes) ?? 0)}`],
  ].map(([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));
}

function buildAddresses(section) {
  let chosen = null, all = false, overview = true, width = 0;
  const body = element('div', {class: 'segments'});
  const facts = element('div', {});
  const moments = element('div', {class: 'controls'});

  function mapsHere() {
    return data.maps.filter(({place}) => place === state.place);
  }

  function redraw() {
    if (width === 0) return;
    body.replaceChildren();
    facts.replaceChildren();
    if (!chosen) {
      facts.append(element('p', {}, `${currentPlace().name} has no segments.`));
      return;
    }
    const segments = chosen.segments.map(unfoldSegment);
    const most = d3.max(segments, ({bytes}) => bytes) ?? 1;
    facts.append(mapSummary(chosen, segments));
    const labels = width > 620 ? 190 : 0;
    // In the overview all segments together fill some rows.
    const share = overview ? Math.min(1, OVERVIEW_ROWS * most / d3.sum(segments, ({bytes}) => bytes)) : 1;
    const bar = (width - (overview ? 2 : labels)) * share;
    let drawn = 0;
    for (const [owner, name] of OWNERS.entries()) {
      const group = segments.filter((segment) => segment.owner === owner);
      if (group.length === 0) continue;
      body.append(element('h3', {}, name, element('small', {}, `${plural(group.length, owner === 3 ? 'block' : 'segment')}, ${formatBytes(d3.sum(group, ({bytes}) => bytes))}`)));
      if (overview) {
        body.append(element('div', {class: 'overview'}, group.map((segment) => drawSegment(segment, most, bar))));
        continue;
      }
      for (const segment of group) {
        if (!all && drawn >= FEW_SEGMENTS) break;
        ++drawn;
        const used = owner === 3 ? '' : `, ${formatPercent(segment.used / segment.bytes)} used`;
        body.append(element('div', {class: 'segment'},
                            element('p', {}, element('code', {}, hexAddress(segment.address)), element('span', {}, `${formatBytes(segment.bytes)}${used}`)),
                            drawSegment(segment, most, bar)));
      }
    }
    if (!overview && drawn < segments.length) {
      body.append(button(`Show all ${plural(segments.length, 'segment')}`, () => {
        all = true;
        redraw();
      }, {class: 'more'}));
    }
    const [count, bytes] = chosen.left_out;
    if (count > 0) body.append(element('p', {class: 'help'}, `And ${plural(count, 'smaller block')} by themselves, ${formatBytes(bytes)}.`));
  }

  function rebuild() {
    const here = mapsHere();
    all = false;
    overview = true;
    chosen = here.find(({moment}) => moment.startsWith('refused')) ?? here.find(({moment}) => moment === 'peak') ?? here[0] ?? null;
    moments.replaceChildren();
    if (here.length > 0) {
      moments.append(choice('Moment', here.map(({moment, time}, index) => [index, `${moment} (${formatTime(time)})`]), here.indexOf(chosen), (index) => {
        chosen = here[index];
        redraw();
      }).node, choice('Layout', [['overview', 'Overview'], ['rows', 'One a row']], 'overview', (layout) => {
        overview = layout === 'overview';
        redraw();
      }).node);
    }
    redraw();
  }

  section.append(heading('addresses', 'Address map'), moments, facts, body,
                 element('p', {class: 'help'}, 'Bars are to one scale. Hatched: idle. Point at a block for its line, click for its row.'));
  onChange(['place'], rebuild);
  onChange(['colors'], redraw);
  drawnAtWidth(body, (now) => {
    width = now;
    redraw();
  });
  rebuild();
}
