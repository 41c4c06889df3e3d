// A table that sorts, searches, and shows some rows at a time. Columns: {key, title, value(row), cell(row), numeric, wide}:
// value is what is sorted by, cell what is shown (text or node); wide columns are left out on narrow screens, 'middle' ones
// on phones only; short ones are never broken.
const FIRST_ROWS = 20, MORE_ROWS = 200;

// "train.py:57  Net.forward": the place, and the function below it.
function lineNode(tag, line) {
  const [place, ...rest] = lineText(line).split('  ');
  return element(tag, {class: 'line', title: linePlace(line)}, element('span', {}, place),
                 rest.length > 0 ? element('span', {class: 'function'}, ' ', rest.join('  ')) : '');
}

function dataTable({id, columns, rows, sort, text, empty, onshown}) {
  const view = {key: sort.key, descending: sort.descending, words: [], shown: FIRST_ROWS};
  let all = rows, found = [];
  const body = element('tbody'), count = element('p', {class: 'count', role: 'status'});
  const more = button('Show more', () => {
    view.shown += MORE_ROWS;
    render();
  }, {class: 'more'});
  const heads = columns.map((column) => element('th', {scope: 'col', class: classOf(column)},
      button(column.title, () => sortBy(column), {title: column.help ?? null})));
  const search = element('input', {type: 'search', id: `${id}-search`, placeholder: 'Search', 'aria-label': 'Search in this table',
                                   autocomplete: 'off', spellcheck: 'false'});
  let pending = 0;
  search.addEventListener('input', () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      view.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      update();
    }, 80);
  });

  function classOf({numeric, wide, short}) {
    return [numeric ? 'number' : '', short ? 'short' : '', wide === 'middle' ? 'middle' : wide ? 'wide' : ''].filter(Boolean).join(' ') || null;
  }

  function sortBy(column) {
    view.descending = view.key === column.key ? !view.descending : Boolean(column.numeric);
    view.key = column.key;
    update();
  }

  function update() {
    view.shown = FIRST_ROWS;
    const {value} = columns.find(({key}) => key === view.key);
    const sign = view.descending ? -1 : 1;
    found = view.words.length === 0 ? [...all] : all.filter((row) => {
      const hay = text(row).toLowerCase();
      return view.words.every((word) => hay.includes(word));
    });
    // What has no value comes last either way.
    found.sort((a, b) => {
      const first = value(a), second = value(b);
      if (first === second) return 0;
      if (first === null) return 1;
      if (second === null) return -1;
      return first < second ? -sign : sign;
    });
    columns.forEach(({key}, index) => {
      heads[index].setAttribute('aria-sort', key !== view.key ? 'none' : view.descending ? 'descending' : 'ascending');
    });
    render();
  }

  function render() {
    const shown = found.slice(0, view.shown);
    body.replaceChildren(...shown.map((row) => element('tr', {}, columns.map((column) => {
      const content = column.cell(row);
      return element('td', {class: classOf(column), 'data-title': column.title}, content);
    }))));
    if (shown.length === 0) body.append(element('tr', {}, element('td', {colspan: columns.length, class: 'empty'}, empty())));
    more.hidden = shown.length === found.length;
    count.textContent = `${formatCount(shown.length)} of ${plural(found.length, 'row')}`;
    if (onshown) onshown(found);
  }

  const node = element('div', {class: 'table'}, element('div', {class: 'controls'}, search, count),
                       element('table', {id: `${id}-table`, 'aria-labelledby': `${id}-title`},
                               element('thead', {}, element('tr', {}, heads)), body), more);
  update();
  return {node, setRows(next) { all = next; update(); }, refresh: update};
}
