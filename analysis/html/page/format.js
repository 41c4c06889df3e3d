// Figures as people read them. Sizes in powers of 1024, as the report in words has them.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

function formatBytes(bytes) {
  const sign = bytes < 0 ? '−' : '';
  let value = Math.abs(bytes), unit = 0;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    ++unit;
  }
  if (unit > 0 && value >= 1023.95 && unit + 1 < UNITS.length) {
    value /= 1024;
    ++unit;
  }
  return sign + (unit === 0 ? String(value) : value.toFixed(1)) + '\u00a0' + UNITS[unit];
}

const GROUPED = new Intl.NumberFormat('en-US');
const formatCount = (number) => GROUPED.format(number);
const formatExact = (bytes) => formatCount(bytes) + '\u00a0B';
const formatPercent = (share) => (100 * share).toFixed(1) + '\u00a0%';
const plural = (count, word) => `${formatCount(count)}\u00a0${word}${count === 1 ? '' : 's'}`;

function formatTime(ns) {
  if (ns < 1e3) return `${ns}\u00a0ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)}\u00a0µs`;
  if (ns < 1e9) return `${(ns / 1e6).toPrecision(3)}\u00a0ms`;
  const seconds = ns / 1e9;
  if (seconds < 120) return `${seconds.toPrecision(4)}\u00a0s`;
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
  return hours > 0 ? `${hours}\u00a0h ${minutes}\u00a0min` : `${minutes}\u00a0min ${whole % 60}\u00a0s`;
}

// Of an axis: as many digits as neighbouring ticks need to differ.
function formatTick(ns, spacing) {
  if (spacing >= 1e9) return ns < 120e9 ? `${Math.round(ns / 1e9)}\u00a0s` : formatTime(ns);
  if (ns === 0) return '0';
  const [scale, unit] = spacing >= 1e6 && ns >= 1e9 ? [1e9, 's'] : spacing >= 1e3 ? [1e6, 'ms'] : [1e3, 'µs'];
  const digits = Math.max(0, Math.ceil(-Math.log10(spacing / scale) - 1e-9));
  return `${(ns / scale).toFixed(Math.min(digits, 6))}\u00a0${unit}`;
}

const formatByteTick = (bytes) => formatBytes(bytes).replace('.0\u00a0', '\u00a0');

// Powers of two make better ticks of bytes than powers of ten.
function byteTicks(most, count) {
  if (!(most > 0)) return [0];
  const step = 2 ** Math.ceil(Math.log2(most / count));
  const ticks = [];
  for (let tick = 0; tick <= most; tick += step) ticks.push(tick);
  return ticks;
}

const fileName = (path) => path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
