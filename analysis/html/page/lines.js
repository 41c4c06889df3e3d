// The table of lines: what each line held at the great moments, and did over the run.

function unfoldLineRows() {
  return data.line_rows.rows.map(([place, line, peak, peakBlocks, end, endBlocks, allocations, allocated, frees, largest, leaked]) => ({
    place, line, peak, peakBlocks, end, endBlocks, allocations, allocated, frees, largest, leaked}));
}

function buildLines(section) {
  const rows = unfoldLineRows();
  let atInstant = new Map();

  // Stacks that were taken together have no line of their own: then what is told is the least.
  function countInstant() {
    atInstant = new Map();
    for (const group of currentPlace().groups) {
      if (group.part !== PART.stack) continue;
      atInstant.set(group.line, (atInstant.get(group.line) ?? 0) + group.bytes[state.instant]);
    }
  }

  const follow = (row, bytes, what, test, count) => bytes === 0 ? element('span', {class: 'nothing'}, '0')
      : button(formatBytes(bytes), () => showBlocks(`${lineText(row.line)}: ${what}`, (block) =>
          block.place === row.place && block.line === row.line && test(block), {bytes, blocks: count}),
               {class: 'link', title: `${formatExact(bytes)}: show the blocks`});
  const here = (row) => places[row.place];
  const columns = [
    {key: 'line', title: 'Line', value: (row) => lineText(row.line),
     cell: (row) => lineNode('span', row.line)},
    {key: 'instant', title: 'Chosen', numeric: true, wide: 'middle', help: 'Held at the chosen instant', value: (row) => atInstant.get(row.line) ?? 0,
     cell: (row) => {
       const at = state.instant;
       return follow(row, atInstant.get(row.line) ?? 0, instantName(here(row), at), (block) => heldAt(block, here(row), at));
     }},
    {key: 'peak', title: 'Peak', help: 'Held at the peak', numeric: true, value: (row) => row.peak,
     cell: (row) => follow(row, row.peak, 'at the peak', (block) => heldAt(block, here(row), here(row).peak), row.peakBlocks)},
    {key: 'leaked', title: 'Leaked', help: 'Held at the end and growing', numeric: true, value: (row) => row.leaked,
     cell: (row) => follow(row, row.leaked, 'leaked', (block) => block.finding !== null && data.findings[block.finding].leak)},
    {key: 'end', title: 'End', help: 'Never freed', numeric: true, wide: true, value: (row) => row.end,
     cell: (row) => follow(row, row.end, 'never freed', (block) => block.freed === null, row.endBlocks)},
    {key: 'allocations', title: 'Allocations', numeric: true, wide: true, value: (row) => row.allocations,
     cell: (row) => button(formatCount(row.allocations), () => showBlocks(lineText(row.line), (block) =>
         block.place === row.place && block.line === row.line, {bytes: row.allocated, blocks: row.allocations}), {class: 'link'})},
    {key: 'frees', title: 'Freed', numeric: true, wide: true, value: (row) => row.frees, cell: (row) => formatCount(row.frees)},
    {key: 'allocated', title: 'Allocated', numeric: true, wide: true, value: (row) => row.allocated, cell: (row) => formatBytes(row.allocated)},
    {key: 'largest', title: 'Largest', numeric: true, wide: true, value: (row) => row.largest, cell: (row) => formatBytes(row.largest)},
  ];
  const rowsHere = () => rows.filter(({place}) => place === state.place);
  countInstant();
  const table = dataTable({
    id: 'lines', columns, rows: rowsHere(), sort: {key: 'peak', descending: true},
    text: (row) => `${lineText(row.line)} ${linePlace(row.line)}`, empty: () => 'No line matches.'});
  section.append(heading('lines', 'Lines', 'click a figure for its blocks'), table.node);
  if (data.line_rows.left_out > 0)
    section.append(element('p', {class: 'help'}, `${plural(data.line_rows.left_out, 'line')} that held least are left out of this table.`));
  onChange(['place'], () => {
    countInstant();
    table.setRows(rowsHere());
  });
  onChange(['instant'], () => {
    countInstant();
    table.refresh();
  });
}
