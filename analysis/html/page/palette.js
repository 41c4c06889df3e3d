// Colours that people with any colour vision can tell apart (after Okabe and Ito), as variables of the style sheet:
// they differ between light and dark. Neighbours are parted by a line besides.
const SERIES_COLORS = 9;  // --series-0 to --series-8, one a category; the last is grey: "other"

const seriesColor = (index) => `var(--series-${index % SERIES_COLORS})`;

const categoryColor = seriesColor;
const originColor = (origin) => `var(--origin-${origin})`;

// The lines of a place that have colours of their own: those that hold most at its peak.
const MOST_LINES = 8;
const linesWithColors = new Map();  // place: line: color

function lineColor(place, line) {
  if (!linesWithColors.has(place)) {
    const held = new Map();
    for (const group of place.groups)
      if (group.part === PART.stack) held.set(group.line, (held.get(group.line) ?? 0) + group.bytes[place.peak]);
    const largest = [...held].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, MOST_LINES);
    linesWithColors.set(place, new Map(largest.map(([key], index) => [key, seriesColor(index)])));
  }
  return linesWithColors.get(place).get(line) ?? seriesColor(SERIES_COLORS - 1);
}

// Of memory of a category that a stack allocated, as the reader has chosen what colours mean.
function colorOf(place, category, stack) {
  if (state.by === 'category' || stack === null) return categoryColor(category);
  const line = data.stacks.line[stack];
  return state.by === 'line' ? lineColor(place, line) : originColor(data.lines.origin[line]);
}

// --- Light and dark ---

const THEMES = ['auto', 'light', 'dark'];

// Of this page alone; some browsers keep nothing for files.
function rememberTheme(theme) {
  try {
    sessionStorage.setItem('cuheap-theme', theme);
  } catch {
    // Then it is asked for again next time.
  }
}
function rememberedTheme() {
  try {
    const theme = sessionStorage.getItem('cuheap-theme');
    return THEMES.includes(theme) ? theme : 'auto';
  } catch {
    return 'auto';
  }
}

function setUpTheme() {
  const toggle = document.getElementById('theme');
  function apply(theme) {
    document.documentElement.dataset.theme = theme;
    toggle.textContent = {auto: '◐ Auto', light: '○ Light', dark: '● Dark'}[theme];
    toggle.setAttribute('aria-label', `Colours: ${theme === 'auto' ? 'as the system has them' : theme}. Change`);
  }
  apply(rememberedTheme());
  toggle.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    apply(next);
    rememberTheme(next);
  });
}
