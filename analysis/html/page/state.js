// What the reader looks at: a place, an instant of it, and which blocks. Views subscribe and draw themselves anew.
const listeners = [];

// Categories tell little where nearly all is one.
function usefulColors() {
  if (places.length === 0) return 'category';
  const held = new Map(), [place] = places;
  for (const group of place.groups)
    if (group.part !== PART.idleCache) held.set(group.category, (held.get(group.category) ?? 0) + group.bytes[place.peak]);
  return Math.max(...held.values()) > 0.95 * place.used[place.peak] ? 'line' : 'category';
}

const state = {
  place: 0,
  instant: places.length > 0 ? places[0].peak : 0,
  by: usefulColors(),  // what colours mean: category, line or origin
  filter: null,  // of the table of blocks: {label, test(block), total} or null
};

const currentPlace = () => places[state.place];

function onChange(aspects, listener) {
  listeners.push({aspects, listener});
}

function tell(aspect) {
  for (const {aspects, listener} of listeners) if (aspects.includes(aspect)) listener();
}

function chooseColors(by) {
  state.by = by;
  tell('colors');
}

function choosePlace(index) {
  if (index === state.place) return;
  state.place = index;
  state.instant = places[index].peak;
  tell('place');
}

function chooseInstant(instant) {
  const place = currentPlace();
  const bounded = Math.max(0, Math.min(place.time.length - 1, instant));
  if (bounded === state.instant) return;
  state.instant = bounded;
  tell('instant');
}

// total: what the figure that was followed says, {bytes, blocks} as far as known: the table may list fewer blocks.
function showBlocks(label, test, total = {}) {
  state.filter = {label, test, total};
  tell('filter');
  const section = document.getElementById('blocks');
  section.scrollIntoView({block: 'start'});
  section.querySelector('h2').focus({preventScroll: true});
}

function clearFilter() {
  state.filter = null;
  tell('filter');
}

// Held at an instant of a place?
function heldAt(block, place, instant) {
  if (block.place !== place.index) return false;
  const time = place.time[instant];
  return (block.allocated === null || block.allocated <= time) && (block.freed === null || block.freed > time);
}

// What was held when a block was allocated.
function showTime(place, time) {
  choosePlace(place.index);
  chooseInstant(Math.max(0, d3.bisector((at) => at).right(place.time, time) - 1));
  document.getElementById('timeline').scrollIntoView({block: 'start'});
  document.querySelector('#timeline svg.chart').focus({preventScroll: true});
}

function instantName(place, instant) {
  const named = place.named.find((entry) => entry.instant === instant);
  const time = formatTime(place.time[instant]);
  const step = stepName(place.step[instant]);
  return (named ? `${named.name}, ` : '') + time + (step ? `, ${step}` : '');
}

function stepName(step) {
  if (step === 0) return '';
  return step > data.steps.count ? 'after the last step' : `step ${formatCount(step)}`;
}
