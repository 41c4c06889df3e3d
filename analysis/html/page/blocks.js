// The table of single blocks: what every figure leads to.

function stackList(stack) {
  return element('ol', {class: 'stack'}, framesOf(stack).reverse().map((frame) =>
      element('li', {class: data.frames.origin[frame] === 0 ? 'charged' : null}, frameFunction(frame), ' ',
              element('span', {class: 'where'}, framePlace(frame)))));
}

// Filled when it is opened: a table of stacks would be large.
function blockDetails(block) {
  const details = element('details', {class: 'line'}, lineNode('summary', block.line));
  details.addEventListener('toggle', () => {
    if (details.childElementCount > 1) return;
    details.append(element('p', {class: 'rule'}, `${data.categories[block.category]}: ${block.rule}`),
                   element('p', {class: 'rule'}, `${block.address}, stream ${block.stream}, thread ${block.thread}`),
                   stackList(block.stack));
  });
  return details;
}

function filterNote(filter, found) {
  if (!filter) {
    const {all} = data.blocks;
    if (blocks.length === all) return element('p', {}, `All ${plural(all, 'block')} of the run.`);
    return element('p', {}, `${formatCount(blocks.length)} of ${plural(all, 'block')}: those of findings and of the great moments first, then the largest.`);
  }
  const listed = d3.sum(found, ({bytes}) => bytes);
  const {bytes, blocks: count} = filter.total;
  const all = count !== undefined ? plural(count, 'block') : '';
  const sum = bytes !== undefined ? formatBytes(bytes) : '';
  const lacks = (count !== undefined && count !== found.length) || (bytes !== undefined && bytes !== listed);
  return element('p', {}, `${plural(found.length, 'block')}, ${formatBytes(listed)}`,
                 lacks ? ` listed here, of ${[all, sum].filter(Boolean).join(', ')} in all` : '', '.');
}

function buildBlocks(section) {
  const note = element('div', {class: 'note'});
  const columns = [
    {key: 'bytes', title: 'Size', numeric: true, value: (block) => block.bytes,
     cell: (block) => element('span', {title: formatExact(block.bytes)}, formatBytes(block.bytes))},
    {key: 'line', title: 'Line', value: (block) => lineText(block.line),
     cell: blockDetails},
    {key: 'category', title: 'Category', wide: true, short: true, value: (block) => data.categories[block.category],
     cell: (block) => [element('i', {class: 'swatch', vars: {'--color': categoryColor(block.category)}}), data.categories[block.category]]},
    {key: 'allocated', title: 'Allocated', numeric: true, wide: 'middle', value: (block) => block.allocated,
     cell: (block) => block.allocated === null ? 'before' : block.place < 0 ? formatTime(block.allocated)
         : button(formatTime(block.allocated), () => showTime(places[block.place], block.allocated),
                  {class: 'link', title: 'Show this instant in the timeline'})},
    {key: 'step', title: 'Step', numeric: true, wide: true, value: (block) => block.step, cell: (block) => block.step === 0 ? '' : formatCount(block.step)},
    {key: 'lifetime', title: 'Lived', numeric: true, value: (block) => block.lifetime ?? Infinity,
     cell: (block) => block.lifetime === null ? element('b', {}, 'never freed') : formatTime(block.lifetime)},
    {key: 'kind', title: 'Kind', wide: true, short: true, value: (block) => block.kind, cell: (block) => block.kind.replaceAll('_', ' ')},
    {key: 'address', title: 'Address', wide: true, short: true, value: (block) => block.address, cell: (block) => element('code', {}, block.address)},
  ];
  const table = dataTable({
    id: 'blocks', columns, rows: blocks, sort: {key: 'bytes', descending: true},
    text: (block) => `${lineText(block.line)} ${linePlace(block.line)} ${data.categories[block.category]} ${block.kind} ${block.address}`,
    empty: () => state.filter ? 'None of them is among the blocks that this page lists.' : 'No block matches.'});

  function refilter() {
    const {filter} = state;
    const rows = filter ? blocks.filter(filter.test) : blocks;
    note.replaceChildren(filter ? element('p', {class: 'filter'}, 'Only: ', element('b', {}, filter.label), ' ',
                                          button('Show all', clearFilter)) : '', filterNote(filter, rows));
    table.setRows(rows);
  }
  const title = heading('blocks', 'Blocks');
  title.setAttribute('tabindex', '-1');
  section.append(title, note, table.node);
  onChange(['filter'], refilter);
  refilter();
}
