// Puts the page together: the verdict at once, the rest when the browser has drawn that.

function buildNav(sections) {
  const nav = document.getElementById('nav');
  nav.append(...sections.map(([id, title]) => element('a', {href: `#${id}`}, title)));
}

function buildFoot() {
  const {events, blocks: count, stacks, lost_events: lost} = data.counts;
  document.getElementById('foot').append(
      element('p', {}, `Made by cuheap ${data.made_by || ''} of ${plural(events, 'event')}`,
              lost > 0 ? ` (${formatCount(lost)} older ones were overwritten)` : '', `, ${plural(count, 'block')}, ${plural(stacks, 'stack')}. `,
              'Everything is in this file; it asks nothing of any network. Charts: D3, whose licence stands in the page’s source.'));
}

function build() {
  setUpTheme();
  const find = (id) => document.getElementById(id);
  buildVerdict(find('verdict'));
  buildFindings(find('findings'));
  const views = [
    ['timeline', 'Timeline', buildTimeline, places.length > 0],
    ['stacks', 'Stacks', buildStacks, places.length > 0],
    ['addresses', 'Addresses', buildAddresses, data.maps.length > 0],
    ['lines', 'Lines', buildLines, data.line_rows.rows.length > 0],
    ['blocks', 'Blocks', buildBlocks, blocks.length > 0],
    ['words', 'In words', buildWords, true],
    ['not-observed', 'Not observed', buildNotObserved, true],
  ].filter(([, , , worth]) => worth);
  const nav = find('findings').hasChildNodes() ? [['findings', 'Findings']] : [];
  for (const [id, title, make] of views) {
    const section = find(id);
    section.hidden = false;
    if (make(section) === false) section.hidden = true;
    else nav.push([id, title]);
  }
  buildNav(nav);
  buildFoot();
  document.documentElement.dataset.ready = 'yes';
}

build();
