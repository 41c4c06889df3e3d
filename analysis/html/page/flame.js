// What was held at the chosen instant, by stack: as an icicle (the outermost call on top) or a flame graph (at the
// bottom). Widths are bytes; colours are those of the timeline, of most of a frame's bytes.
const ROW = 21;

// Nodes {name, where, own, bytes, children: Map, stacks: Set, byColor, byCategory}. yours: only the frames of the user's code, or
// the line that is charged where there is none.
function stackTree(place, instant, yours) {
  const root = newNode('all', '', false);
  for (const group of place.groups) {
    const bytes = group.bytes[instant];
    if (!(bytes > 0)) continue;
    let node = root;
    addTo(node, bytes, group);
    for (const {key, name, where, own} of pathOf(group, yours)) {
      if (!node.children.has(key)) node.children.set(key, newNode(name, where, own));
      node = node.children.get(key);
      addTo(node, bytes, group);
    }
    node.self += bytes;
  }
  return root;
}

function newNode(name, where, own) {
  return {name, where, own, bytes: 0, self: 0, children: new Map(), stacks: new Set(), byColor: new Map(), byCategory: new Map()};
}

function addTo(node, bytes, group) {
  node.bytes += bytes;
  if (group.part === PART.stack) node.stacks.add(group.stack);
  const color = group.part === PART.idleCache ? 'var(--idle)' : colorOf(currentPlace(), group.category, group.stack);
  node.byColor.set(color, (node.byColor.get(color) ?? 0) + bytes);
  const category = group.part === PART.idleCache ? -1 : group.category;
  node.byCategory.set(category, (node.byCategory.get(category) ?? 0) + bytes);
}

function pathOf(group, yours) {
  if (group.part === PART.idleCache) return [{key: 'idle', name: 'idle in PyTorch’s cache', where: '', own: false}];
  if (group.part === PART.otherStacks) return [{key: 'other', name: 'other stacks, each small', where: '', own: false}];
  const frames = framesOf(group.stack).map((frame) => ({
    key: frame, name: frameFunction(frame), where: framePlace(frame), own: data.frames.origin[frame] === 0}));
  if (!yours) return frames.length > 0 ? frames : [{key: 'none', name: '(no stack)', where: '', own: false}];
  const own = frames.filter((frame) => frame.own);
  const charged = {key: `line ${group.line}`, name: lineText(group.line), where: linePlace(group.line), own: false};
  return data.lines.origin[group.line] === 0 && own.length > 0 ? own : own.concat([charged]);
}

function nodeColor(node) {
  let most = -1, color = 'var(--idle)';
  for (const [candidate, bytes] of node.byColor) {
    if (bytes <= most) continue;
    most = bytes;
    color = candidate;
  }
  return color;
}

// As much of a text as fits, with a mark where it is cut; nothing if that is not even two letters.
const ruler = document.createElement('canvas').getContext('2d');
function fitted(text, room, bold) {
  ruler.font = `${bold ? 'bold ' : ''}12px ${getComputedStyle(document.body).fontFamily}`;
  const width = ruler.measureText(text).width;
  if (width <= room) return text;
  let letters = Math.floor(text.length * room / width);
  while (letters > 1 && ruler.measureText(text.slice(0, letters) + '…').width > room) --letters;
  return letters > 1 ? text.slice(0, letters) + '…' : '';
}

const shortWhere = (where) => fileName(where);

function buildStacks(section) {
  const view = {yours: true, flame: false};
  let width = 0, root = null, focus = null, selected = null;
  const svg = element('svg:svg', {class: 'chart flame', tabindex: '0', role: 'application',
                                  'aria-roledescription': 'flame graph', 'aria-describedby': 'stacks-help'});
  const detail = element('div', {class: 'detail', 'aria-live': 'polite'});
  const when = element('span', {class: 'chosen'});
  const whole = button('All of it', () => setFocus(root), {class: 'quiet', disabled: true});

  function rebuild() {
    const tree = stackTree(currentPlace(), state.instant, view.yours);
    root = d3.hierarchy(tree, (node) => [...node.children.values()]).sum((node) => node.self)
        .sort((a, b) => b.value - a.value || (a.data.name < b.data.name ? -1 : 1));
    focus = selected = root;
    d3.partition()(root);
    when.replaceChildren('At ', element('b', {}, instantName(currentPlace(), state.instant)), ', ', currentPlace().name);
    setFocus(root);
  }

  function setFocus(node) {
    focus = selected = node;
    whole.disabled = node === root;
    redraw();
    describe();
  }

  function redraw() {
    if (width === 0 || !root) return;
    const depth = focus.height + focus.depth + 1, height = depth * ROW;
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('height', height);
    const x = d3.scaleLinear().domain([focus.x0, focus.x1]).range([0, width]);
    const nodes = [];
    root.each((node) => {
      const related = node.x1 > focus.x0 && node.x0 < focus.x1;
      if (!related || node.value === 0) return;
      const left = Math.max(0, x(node.x0)), right = Math.min(width, x(node.x1));
      if (right - left < 0.6) return;
      const y = view.flame ? height - (node.depth + 1) * ROW : node.depth * ROW;
      nodes.push(drawNode(node, left, right - left, y));
    });
    svg.replaceChildren(...nodes);
    svg.setAttribute('aria-label', `Stacks, ${formatBytes(root.value)} in all`);
  }

  function drawNode(node, left, room, y) {
    const {name, where, own} = node.data;
    const group = element('svg:g', {class: node === selected ? 'node selected' : node.depth < focus.depth ? 'node outer' : 'node'},
                          element('svg:rect', {x: left, y: y + 0.5, width: Math.max(0.5, room - 1), height: ROW - 1.5, rx: 2,
                                               vars: {'--color': nodeColor(node.data)}}));
    const label = node === root ? `all, ${formatBytes(root.value)}` : where ? `${name}  ${shortWhere(where)}` : name;
    const text = room < 24 ? '' : fitted(label, room - 9, own);
    if (text) group.append(element('svg:text', {x: left + 5, y: y + ROW - 6.5, class: own ? 'own' : null}, text));
    group.addEventListener('pointermove', (event) => showTip([
      element('p', {}, element('b', {}, name)), where ? element('p', {class: 'where'}, where) : '',
      tipRows([['held', `${formatBytes(node.value)}, ${formatPercent(node.value / root.value)}`],
               ...[...node.data.byCategory].sort((a, b) => b[1] - a[1]).map(([category, bytes]) =>
                   [category < 0 ? 'idle' : data.categories[category], formatBytes(bytes), category < 0 ? 'var(--idle)' : categoryColor(category)])]),
    ].filter(Boolean), event.clientX, event.clientY));
    group.addEventListener('pointerleave', hideTip);
    group.addEventListener('click', () => setFocus(node === focus && node.parent ? node.parent : node));
    return group;
  }

  function describe() {
    const {name, where} = selected.data, at = state.instant, place = currentPlace();
    const stacks = selected.data.stacks;
    detail.replaceChildren(
        element('p', {}, element('b', {}, selected === root ? 'Everything' : name), where ? element('span', {class: 'where'}, where) : ''),
        element('p', {}, `${formatBytes(selected.value)} (${formatExact(selected.value)}), ${formatPercent(root.value ? selected.value / root.value : 0)} `,
                stacks.size > 0 ? button('Show the blocks', () => showBlocks(
                    `${selected === root ? place.name : name}, ${instantName(place, at)}`,
                    (block) => heldAt(block, place, at) && stacks.has(block.stack), {bytes: selected.value})) : ''));
  }

  function select(node) {
    if (!node) return;
    selected = node;
    redraw();
    describe();
  }

  function sibling(node, step) {
    const row = node.parent ? node.parent.children : [node];
    return row[row.indexOf(node) + step];
  }

  svg.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !selected) return;
    const inward = () => select(selected.children && selected.children[0]), outward = () => select(selected.parent);
    const actions = {
      ArrowDown: view.flame ? outward : inward, ArrowUp: view.flame ? inward : outward,
      ArrowLeft: () => select(sibling(selected, -1)), ArrowRight: () => select(sibling(selected, 1)),
      Enter: () => setFocus(selected), Escape: () => setFocus(root),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });

  section.append(
      heading('stacks', 'Held by stack'),
      element('div', {class: 'controls'},
              choice('Shape', [['icicle', 'Icicle'], ['flame', 'Flame']], 'icicle', (value) => {
                view.flame = value === 'flame';
                redraw();
              }).node,
              choice('Frames', [['yours', 'Your code'], ['all', 'All frames']], 'yours', (value) => {
                view.yours = value === 'yours';
                rebuild();
              }).node, whole, when),
      element('div', {class: 'frame'}, svg), detail,
      element('p', {class: 'help', id: 'stacks-help'}, 'Click: zoom into a frame. Keys: arrows move, Enter zooms, Esc shows all.'));
  onChange(['place', 'instant', 'colors'], rebuild);
  drawnAtWidth(svg.parentNode, (now) => {
    width = now;
    redraw();
  });
  rebuild();
}
