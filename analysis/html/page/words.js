// The rest of the report in words: every section that has no view of its own above, and what was not observed.
const SHOWN_ABOVE = new Set(['', 'RUN', 'FAILED ALLOCATIONS', 'NOT OBSERVED']);

// Entries that follow each other and belong together become one node.
function sectionBody(entries) {
  const nodes = [];
  let last = '';
  for (const [style, text, extra] of entries) {
    const current = nodes[nodes.length - 1];
    if (style === 'gap') {
      last = '';
    } else if (style === 'line' || style === 'dim') {
      if (last === 'pre') current.textContent += '\n' + text;
      else nodes.push(element('pre', {tabindex: '0'}, text));
      last = 'pre';
    } else if (style === 'field') {
      const pair = [element('dt', {}, extra ?? ''), element('dd', {}, text)];
      if (last === 'field') current.append(...pair);
      else nodes.push(element('dl', {}, pair));
      last = 'field';
    } else {
      nodes.push(element('p', {class: style}, text));
      last = style;
    }
  }
  return nodes;
}

function buildWords(section) {
  const sections = data.sections.filter((part) => !SHOWN_ABOVE.has(part.title) && !isAdvised(part));
  if (sections.length === 0) return false;
  section.append(heading('words', 'In words'), ...sections.map(({title, text, entries}) =>
      element('details', {class: 'words'}, element('summary', {}, element('b', {}, title), text ? ` ${text}` : ''), sectionBody(entries))));
  return true;
}

function buildNotObserved(section) {
  if (data.not_observed.length === 0) return false;
  section.append(heading('not-observed', 'Not observed', 'what these figures cannot know'),
                 element('ul', {class: 'not-observed'}, data.not_observed.map(([loss, text]) =>
                     element('li', {class: loss ? 'loss' : null}, text))));
  return true;
}
