// What was found, first: the verdict, the figures of every place, and a card for each finding, in the words of the
// report for the terminal.

function placeFigures(place) {
  const held = place.total[place.peak], last = place.total[place.total.length - 1];
  const lost = place.mostBytes - place.used[place.peak];
  const when = place.step[place.peak] ? stepName(place.step[place.peak]) : `at ${formatTime(place.time[place.peak])}`;
  const figures = [
    figure(place.tensors ? 'tensors at most' : 'at most', place.mostBytes, () => {
      lookAt(place, place.peak);
      showBlocks(`held at the peak of ${place.name}`, (block) => heldAt(block, place, place.peak),
                 {bytes: place.mostBytes});
    }, lost > 0 ? `${formatBytes(lost)} of it are not in the record any more` : when),
  ];
  if (place.tensors) figures.push(figure('held by PyTorch’s cache then', held, () => lookAt(place, place.peak)));
  figures.push(figure('held at the end', last, () => {
    const end = place.time.length - 1;
    lookAt(place, end);
    showBlocks(`held at the end of ${place.name}`, (block) => heldAt(block, place, end), {bytes: place.used[end]});
  }));
  const note = [place.model, place.capacity ? `${formatBytes(place.capacity)} in all` : ''].filter(Boolean).join(', ');
  return element('div', {class: 'place'}, element('h3', {}, place.name, note ? element('small', {}, note) : ''),
                 element('div', {class: 'figures'}, figures));
}

function figure(label, bytes, follow, note) {
  return element('button', {type: 'button', class: 'figure', onclick: follow, title: `${formatExact(bytes)}: show the blocks`},
                 element('b', {}, formatBytes(bytes)), element('span', {}, label), note ? element('small', {}, note) : '');
}

function lookAt(place, instant) {
  choosePlace(place.index);
  chooseInstant(instant);
}

function buildVerdict(section) {
  const {word, text, tone} = data.verdict;
  document.title = `${word} · ${data.title} · cuheap`;
  const run = data.sections.find(({title}) => title === 'RUN');
  const answer = firstAnswer();
  section.append(
      element('h1', {class: `verdict ${tone}`}, element('strong', {}, word), ' ', element('span', {}, text)),
      answer ? element('p', {class: 'answer'}, element('b', {}, 'What to do now: '), answer) : '',
      element('p', {class: 'title'}, element('code', {}, data.title),
              data.simulated ? element('span', {class: 'badge'}, 'simulated GPU') : ''));
  const most = Math.max(0, ...places.map((place) => place.total[place.peak]));
  // A few pinned bytes are in every process of PyTorch: not worth a box.
  const worth = places.filter((place) => !place.host || place.total[place.peak] > most / 1000);
  if (worth.length > 0) section.append(element('div', {class: 'places'}, worth.map(placeFigures)));
  if (run) {
    section.append(element('details', {class: 'run'}, element('summary', {}, 'About the run'),
                           element('dl', {}, run.entries.filter(([style]) => style === 'field').map(
                               ([, value, name]) => [element('dt', {}, name), element('dd', {}, value)]))));
  }
}

// --- Cards ---

// Entries of a section fall into cards: `begins` tells the first entry of one.
function splitCards(entries, begins) {
  const cards = [];
  entries.forEach((entry, index) => {
    if (begins(entry, entries[index - 1])) cards.push([]);
    if (cards.length > 0 && entry[0] !== 'gap') cards[cards.length - 1].push(entry);
  });
  return cards;
}

function entryNode([style, text]) {
  switch (style) {
    case 'advice':
      return element('p', {class: 'advice'}, text);
    case 'line':
      return element('p', {class: 'line'}, text);
    default:
      return element('p', {class: style}, text.trim());
  }
}

// Rows of a table that follow each other are one entry, without the room that all of them have on the left.
function joinRows(entries) {
  const joined = [];
  for (const [style, text] of entries) {
    const last = joined[joined.length - 1];
    if (style === 'line' && last && last[0] === 'line') last[1] += '\n' + text;
    else joined.push([style, text]);
  }
  return joined.map(([style, text]) => {
    if (style !== 'line') return [style, text];
    const rows = text.split('\n'), indent = Math.min(...rows.map((row) => row.search(/\S|$/)));
    return [style, rows.map((row) => row.slice(indent)).join('\n')];
  });
}

// The lines of a stack come one after another: folded away.
function cardBody(entries) {
  const nodes = [];
  let stack = null, lead = false;
  for (const entry of joinRows(entries)) {
    if (entry[0] !== 'dim') {
      stack = null;
      nodes.push(entryNode(entry));
      // The first sentence is what a reader in a hurry reads.
      if (entry[0] === 'detail' && !lead) nodes[nodes.length - 1].classList.add('lead');
      lead = lead || entry[0] === 'detail';
      continue;
    }
    if (stack === null) {
      stack = element('ul', {class: 'stack'});
      nodes.push(element('details', {}, element('summary', {}, 'Stack'), stack));
    }
    const marked = /^\s*>\s+/.test(entry[1]);
    stack.append(element('li', {class: marked ? 'charged' : null}, entry[1].replace(/^\s*>?\s+/, '')));
  }
  return nodes;
}

function findingCard(kind, entries, finding) {
  const [first, ...rest] = entries;
  const title = first[1].trim().replace(/^\d+\s+/, '');
  const card = element('article', {class: `card ${kind}`, tabindex: '-1'},
                       element('h3', {}, element('span', {class: 'kind'}, {leak: 'Leak', refused: 'Refused'}[kind] ?? kind),
                               element('code', {}, title)),
                       cardBody(rest));
  if (finding !== null) {
    const {bytes, blocks: count} = data.findings[finding];
    card.append(element('p', {class: 'actions'},
                        button(`Show its ${plural(count, 'block')}`, () => showFinding(finding)),
                        element('span', {class: 'exact'}, formatExact(bytes))));
  }
  return card;
}

// Any other section that says what to do is worth a card: fragmentation, what would help, ...
const isAdvised = ({title, entries}) => !SHOWN_ABOVE.has(title) && entries.some(([style]) => style === 'advice');

// "      saves     new peak   then highest in (each remedy alone)": the names of a table's columns.
const columnNames = (head) => head.trim().split(/\s{2,}/).map((name) => name.replace(/\s*\(.*\)$/, ''));
const splitRow = (row) => row.trim().split(/\s{2,}/);

// A row of a table, away from its head: "Saves 34.3 GiB, new peak 35.1 GiB, then highest in forward pass".
function rowInWords(row, head) {
  const names = head ? columnNames(head) : [];
  const words = splitRow(row).map((cell, index) => (names[index] ? `${names[index]} ` : '') + cell).join(', ');
  return words[0].toUpperCase() + words.slice(1);
}

// The advices of a section, each with the row of figures before it and what it tells after it.
function advicesOf({entries}) {
  const advices = [];
  let head = '';
  entries.forEach(([style, text], index) => {
    if (style === 'dim' && (entries[index + 1] || [])[0] === 'line') head = text;
    if (style !== 'advice') return;
    const [before, row] = entries[index - 1] || [], [after, detail] = entries[index + 1] || [];
    advices.push({text, row: before === 'line' ? row : '', head, detail: after === 'detail' ? detail : ''});
  });
  return advices;
}

const MOST_ADVICES = 3;  // of a section; the first saves most

// What is advised, with its figures; the rest of the section is folded away.
function adviceCard(part) {
  const {title, text, entries} = part, advices = advicesOf(part);
  const name = title[0] + title.slice(1).toLowerCase().replace('pytorch', 'PyTorch');
  const left = advices.length - MOST_ADVICES;
  return element('article', {class: 'card advised', tabindex: '-1'},
                 element('h3', {}, element('span', {class: 'kind'}, name), element('span', {}, text)),
                 advices.slice(0, MOST_ADVICES).map((advice) => [
                   advice.row ? element('p', {class: 'effect'}, rowInWords(advice.row, advice.head)) : '',
                   element('p', {class: advice.row ? 'advice plain' : 'advice'}, advice.text),
                   advice.detail ? element('p', {class: 'detail'}, advice.detail.trim()) : '',
                 ]),
                 element('details', {}, element('summary', {}, left > 0 ? `All of it: ${formatCount(left)} more` : 'All of it'),
                         sectionBody(entries)));
}

function showFinding(index) {
  const finding = data.findings[index];
  showBlocks(`${finding.class}: ${lineText(finding.line)}`, (block) => block.finding === index,
             {bytes: finding.bytes, blocks: finding.blocks});
}

const leakEntries = () => {
  const before = data.sections.find(({title}) => title === '');
  return splitCards(before ? before.entries : [],
                    ([style], previous) => style === 'strong' && (!previous || previous[0] !== 'strong'));
};
const refusedEntries = () => {
  const failures = data.sections.find(({title}) => title === 'FAILED ALLOCATIONS');
  return splitCards(failures ? failures.entries : [], ([style, text]) => style === 'strong' || (style === 'line' && /^ {2}\S/.test(text)));
};

// The answer to "what do I do now?", before all figures: the line and the remedy of what comes first among the findings.
function firstAnswer() {
  const cards = [...refusedEntries(), ...leakEntries()];
  const first = cards.find((entries) => entries.some(([style]) => style === 'advice'));
  const savings = data.sections.filter(({title}) => title === 'WHAT WOULD HELP').flatMap(advicesOf);
  const best = savings.length > 0 ? [savings[0].text.split('. ')[0], splitRow(savings[0].row)[0]] : null;
  if (first) {
    const place = first[0][1].trim().replace(/^\d+\s+/, '');
    const kept = first.findIndex(([style, text]) => style === 'detail' && /^\s*kept, .* by$/.test(text));
    const keeper = kept >= 0 && first[kept + 1] && first[kept + 1][0] === 'line' ? first[kept + 1][1].trim() : '';
    return [element('code', {}, keeper || place), ': ', first.find(([style]) => style === 'advice')[1],
            best && cards.indexOf(first) < refusedEntries().length ? ` Saves most: ${best[0]}, ${best[1]}.` : ''];
  }
  if (data.verdict.tone === 'good') return ['Nothing has to be mended.', best ? ` To lower the peak: ${best[0]} saves ${best[1]}.` : ''];
  return best ? [`${best[0]} saves ${best[1]} of the peak.`] : null;
}

function buildFindings(section) {
  const leaks = data.findings.map((finding, index) => ({...finding, index})).filter(({leak}) => leak);
  let leak = 0;
  const nodes = leakEntries().map((entries) => {
    const numbered = /^\d+\s/.test(entries[0][1]);
    return findingCard(numbered ? 'leak' : 'growing', entries, numbered && leak < leaks.length ? leaks[leak++].index : null);
  });
  // What stopped the program comes first.
  nodes.unshift(...refusedEntries().map((entries) => findingCard('refused', entries, null)));
  nodes.push(...data.sections.filter(isAdvised).map(adviceCard));
  section.hidden = nodes.length === 0;
  if (section.hidden) return;
  section.append(element('h2', {id: 'findings-title'}, 'Findings'));
  const shown = 4;
  const list = element('div', {class: 'cards'}, nodes.slice(0, shown));
  section.append(list);
  if (nodes.length > shown) {
    const more = button(`Show ${formatCount(nodes.length - shown)} more`, () => {
      list.append(...nodes.slice(shown));
      more.remove();
      nodes[shown].focus();
    }, {class: 'more'});
    section.append(more);
  }
}
