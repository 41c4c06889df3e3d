// Elements without markup: everything that comes from a program is set as text.
function element(tag, attributes = {}, ...children) {
  const node = tag.startsWith('svg:') ? document.createElementNS('http://www.w3.org/2000/svg', tag.slice(4))
                                      : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'vars') for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ''));
  return node;
}

const button = (text, onclick, attributes = {}) => element('button', {type: 'button', onclick, ...attributes}, text);

// One of several, as buttons that say which is pressed.
function choice(label, options, current, onchoose) {
  const group = element('div', {class: 'choice', role: 'group', 'aria-label': label});
  const buttons = options.map(([value, text]) => button(text, () => {
    mark(value);
    onchoose(value);
  }, {'data-value': value}));
  function mark(value) {
    for (const node of buttons) node.setAttribute('aria-pressed', String(node.dataset.value === String(value)));
  }
  mark(current);
  group.append(...buttons);
  return {node: group, mark};
}

function heading(id, title, note) {
  return element('h2', {id: `${id}-title`}, title, note ? element('small', {}, note) : '');
}

// --- The tooltip ---

const tip = document.getElementById('tip');

function showTip(content, x, y) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const margin = 12, box = tip.getBoundingClientRect();
  const width = document.documentElement.clientWidth, height = window.innerHeight;
  let left = x + margin, top = y + margin;
  if (left + box.width > width - 4) left = Math.max(4, x - margin - box.width);
  if (top + box.height > height - 4) top = Math.max(4, y - margin - box.height);
  tip.style.setProperty('left', `${left}px`);
  tip.style.setProperty('top', `${top}px`);
}
const hideTip = () => { tip.hidden = true; };
window.addEventListener('scroll', hideTip, {passive: true});

function tipRows(rows) {
  return element('dl', {}, rows.map(([name, value, color]) => [
    element('dt', {}, color ? element('i', {class: 'swatch', vars: {'--color': color}}) : '', name),
    element('dd', {}, value),
  ]));
}

const announce = (text) => { document.getElementById('announce').textContent = text; };

// --- Drawing areas ---

// Calls draw(width) now and whenever the width changes. Nothing is drawn while the node is not in sight of the layout.
function drawnAtWidth(node, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(node.clientWidth);
    if (width > 0 && width !== last) draw(last = width);
  }).observe(node);
  return () => { if (node.clientWidth > 0) draw(last = Math.floor(node.clientWidth)); };
}
