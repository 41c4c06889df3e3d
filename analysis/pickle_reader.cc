#include "analysis/pickle_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace cuheap::analysis {

namespace {
using Kind = PickleValue::Kind;

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr std::size_t kMaxMemoGap = 1024;  // picklers number what they memoize without gaps
// What goes on without end is no snapshot: such a file fails in its first megabytes, whatever its size. Only dicts (events,
// blocks) are many in one list, and they have keys; PyTorch's own pickler puts all of a list on the stack at once.
constexpr std::size_t kMaxMarks = 4096;
constexpr std::size_t kMaxPlainValues = std::size_t{1} << 20;
constexpr std::size_t kMaxDropped = 4096;
constexpr std::uint64_t kMaxStringBytes = 16u << 20;

PickleValue MakeInteger(Kind kind, std::int64_t value) {
  PickleValue result;
  result.kind = kind;
  result.integer = value;
  return result;
}
}  // namespace

const PickleData::Elements& PickleData::Of(const PickleValue& value) const {
  if (!value.is(Kind::kList) && !value.is(Kind::kDict)) return none_;
  const Container& container = containers_[static_cast<std::size_t>(value.integer)];
  return container.elements == nullptr ? none_ : *container.elements;
}

std::string_view PickleData::Text(const PickleValue& value) const {
  return value.is(Kind::kString) ? std::string_view(strings_[static_cast<std::size_t>(value.integer)])
                                 : std::string_view();
}

PickleValue PickleData::Find(const PickleValue& dict, std::string_view key) const {
  if (!dict.is(Kind::kDict)) return {};
  const Elements& elements = Of(dict);
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    if (elements[i].is(Kind::kString) && Text(elements[i]) == key) {
      const PickleValue& value = elements[i + 1];
      // What was replaced after it was put here.
      if (value.is(Kind::kDict) && containers_[static_cast<std::size_t>(value.integer)].replaced())
        return MakeInteger(Kind::kRecord, containers_[static_cast<std::size_t>(value.integer)].record);
      return value;
    }
  }
  return {};
}

std::optional<std::uint64_t> PickleData::Unsigned(const PickleValue& value) {
  if (value.is(Kind::kBig)) return static_cast<std::uint64_t>(value.integer);
  if ((value.is(Kind::kInt) || value.is(Kind::kBool)) && value.integer >= 0)
    return static_cast<std::uint64_t>(value.integer);
  return std::nullopt;
}

std::optional<std::int64_t> PickleData::Signed(const PickleValue& value) {
  if (value.is(Kind::kInt) || value.is(Kind::kBool)) return value.integer;
  return std::nullopt;
}

// The machine that a pickle is a program for: a stack of values, a memo of values by number.
class PickleMachine {
 public:
  PickleMachine(TextSource& source, PickleVisitor& visitor, PickleData& data)
      : source_(source), visitor_(visitor), data_(data), buffer_(std::make_unique<char[]>(kBufferBytes)) {}

  PickleProblem Run(PickleValue& root) {
    int byte = NextByte();
    if (byte != 0x80) {
      Fail(byte < 0 ? "the file is empty" : "a pickle of protocol 2 or later begins with byte 0x80");
      return problem_;
    }
    const int protocol = NextByte();
    if (protocol < 2 || protocol > 5) {
      Fail(protocol < 0 ? "the pickle is cut off" : "pickle protocol " + std::to_string(protocol) + " is not known");
      return problem_;
    }
    while (problem_.text.empty()) {
      const int opcode = NextByte();
      if (opcode < 0) {
        CutOff();
      } else if (opcode == '.') {
        root = Pop();
        break;
      } else {
        Execute(static_cast<unsigned char>(opcode));
      }
    }
    return problem_;
  }

 private:
  int NextByte() {
    if (position_ == end_) {
      base_ += end_;
      position_ = 0;
      end_ = source_.Read(buffer_.get(), kBufferBytes);
      if (end_ == 0) return -1;
    }
    return static_cast<unsigned char>(buffer_[position_++]);
  }

  void Fail(const std::string& text) {
    if (!problem_.text.empty()) return;
    problem_.text = source_.error().empty() ? text : source_.error();
    problem_.place = "byte " + std::to_string(base_ + position_);
  }
  void CutOff() {
    if (problem_.text.empty()) problem_.cut_off = source_.error().empty();
    Fail("the pickle is cut off");
  }

  // Little endian; `bytes` at most 8.
  std::uint64_t Number(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      const int byte = NextByte();
      if (byte < 0) {
        CutOff();
        return 0;
      }
      value |= static_cast<std::uint64_t>(byte) << (8 * i);
    }
    return value;
  }

  void Push(PickleValue value) {
    ++made_;
    stack_.push_back(value);
    if (IsPlain(value) && ++levels_.back().plain > kMaxPlainValues)
      Fail("more than " + std::to_string(kMaxPlainValues) + " plain values in a row");
  }
  // Anything but a dict with keys.
  bool IsPlain(const PickleValue& value) const {
    if (!value.is(Kind::kDict)) return true;
    const PickleData::Container& container = data_.containers_[static_cast<std::size_t>(value.integer)];
    return container.elements == nullptr && !container.replaced();
  }
  void PushInteger(Kind kind, std::int64_t value) { Push(MakeInteger(kind, value)); }

  void PushMark() {
    levels_.push_back({stack_.size(), 0});
    if (levels_.size() > kMaxMarks) Fail("the pickle's marks are nested deeper than " + std::to_string(kMaxMarks));
  }

  bool NothingMade() const { return stack_.size() <= levels_.back().begin; }

  PickleValue Pop() {
    if (NothingMade()) {
      Fail("the pickle takes a value that it has not made");
      return {};
    }
    PickleValue value = stack_.back();
    stack_.pop_back();
    if (IsPlain(value)) --levels_.back().plain;
    return value;
  }

  // The last `count` values, as what they have become.
  PickleData::Elements Take(std::size_t count) {
    PickleData::Elements taken(count);
    for (std::size_t i = count; i > 0; --i) taken[i - 1] = Settled(Pop());
    return taken;
  }

  // Everything behind the last mark, which is removed.
  PickleData::Elements TakeToMark() {
    if (levels_.size() == 1) {
      Fail("the pickle lacks a mark");
      return {};
    }
    PickleData::Elements taken(stack_.begin() + static_cast<std::ptrdiff_t>(levels_.back().begin), stack_.end());
    stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(levels_.back().begin), stack_.end());
    levels_.pop_back();
    for (PickleValue& value : taken) value = Settled(value);
    return taken;
  }

  // A pickler drops values only where a tuple contains itself, as in no snapshot.
  void CountDropped() {
    if (++dropped_ > kMaxDropped) Fail("the pickle drops more than " + std::to_string(kMaxDropped) + " of its values");
  }

  void PushContainer(Kind kind, PickleData::Elements elements = {}) {
    PickleData::Container& container = data_.containers_.emplace_back();
    if (!elements.empty()) container.elements = std::make_unique<PickleData::Elements>(std::move(elements));
    PushInteger(kind, static_cast<std::int64_t>(data_.containers_.size() - 1));
  }

  // Reads in pieces: a length that the file does not have must not take memory.
  void PushString(std::uint64_t length) {
    if (length > kMaxStringBytes) return Fail("a string longer than " + std::to_string(kMaxStringBytes) + " bytes");
    std::string text;
    while (length > 0) {
      if (position_ == end_) {
        const int byte = NextByte();
        if (byte < 0) return CutOff();
        --position_;
      }
      const std::size_t piece = static_cast<std::size_t>(std::min<std::uint64_t>(length, end_ - position_));
      text.append(buffer_.get() + position_, piece);
      position_ += piece;
      length -= piece;
    }
    data_.strings_.push_back(std::move(text));
    PushInteger(Kind::kString, static_cast<std::int64_t>(data_.strings_.size() - 1));
  }

  // Two's complement, little endian.
  void PushLong(std::uint64_t bytes) {
    if (bytes > 9) return Fail("a number of more than 64 bits");
    std::uint64_t low = Number(static_cast<int>(std::min<std::uint64_t>(bytes, 8)));
    if (bytes == 9) {
      if (Number(1) != 0) return Fail("a number of more than 64 bits");
      return PushInteger((low >> 63) != 0 ? Kind::kBig : Kind::kInt, static_cast<std::int64_t>(low));
    }
    if (bytes > 0 && bytes < 8 && (low >> (8 * bytes - 1)) != 0) low |= ~std::uint64_t{0} << (8 * bytes);
    PushInteger(Kind::kInt, static_cast<std::int64_t>(low));
  }

  void PushFloat() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | Number(1);
    PickleValue value;
    value.kind = Kind::kFloat;
    std::memcpy(&value.real, &bits, sizeof bits);
    Push(value);
  }

  // The container on top of the stack; null after an error.
  PickleData::Container* Top(Kind kind, const char* what) {
    if (NothingMade() || !stack_.back().is(kind)) {
      Fail(std::string("the pickle puts something into what is no ") + what);
      return nullptr;
    }
    PickleData::Container* container = &data_.containers_[static_cast<std::size_t>(stack_.back().integer)];
    if (container->replaced()) {
      Fail("a dict is filled in two goes");
      return nullptr;
    }
    return container;
  }

  void Append(Kind kind, PickleData::Elements added) {
    PickleData::Container* container = Top(kind, kind == Kind::kDict ? "dict" : "list");
    if (container == nullptr) return;
    if (kind == Kind::kDict && added.size() % 2 != 0) return Fail("a dict's last key has no value");
    if (added.empty()) return;
    if (container->elements == nullptr) {
      if (kind == Kind::kDict) --levels_.back().plain;
      container->elements = std::make_unique<PickleData::Elements>(std::move(added));
    } else {
      container->elements->insert(container->elements->end(), added.begin(), added.end());
    }
    if (kind == Kind::kDict) Visit();
  }

  void Visit() {
    const PickleValue dict = stack_.back();
    const std::optional<std::int64_t> record = visitor_.Filled(data_, dict);
    if (!record) return;
    PickleData::Container& container = data_.containers_[static_cast<std::size_t>(dict.integer)];
    container.elements = nullptr;
    container.record = *record;
  }

  // A dict that a visitor replaced, as what it was replaced by.
  PickleValue Settled(PickleValue value) const {
    if (!value.is(Kind::kDict)) return value;
    const PickleData::Container& container = data_.containers_[static_cast<std::size_t>(value.integer)];
    return container.replaced() ? MakeInteger(Kind::kRecord, container.record) : value;
  }

  void Memoize(std::uint64_t index) {
    if (NothingMade()) return Fail("the pickle keeps a value that it has not made");
    if (index > memo_.size() + kMaxMemoGap) return Fail("the pickle's memo has a hole");
    if (memo_.size() > made_ + kMaxMemoGap) return Fail("the pickle keeps more values than it makes");
    if (index >= memo_.size()) memo_.resize(index + 1, MakeInteger(Kind::kMark, 0));
    memo_[index] = stack_.back();
  }
  void Recall(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index].is(Kind::kMark)) return Fail("the pickle asks for a value that it did not keep");
    Push(memo_[index]);
  }

  void Execute(unsigned char opcode) {
    if (ExecuteScalar(opcode) || ExecuteContainer(opcode) || ExecuteMemo(opcode)) return;
    constexpr std::string_view kObjects = "ciobRPQ\x81\x82\x83\x84\x92\x93";
    if (kObjects.find(static_cast<char>(opcode)) != std::string_view::npos)
      return Fail("the pickle names or makes Python objects, which is never done here; snapshots hold plain data only");
    Fail("pickle opcode " + std::to_string(opcode) + " is not plain data of protocols 2 to 5");
  }

  bool ExecuteScalar(unsigned char opcode) {
    switch (opcode) {
      case 'N': Push({}); return true;
      case 0x88: PushInteger(Kind::kBool, 1); return true;
      case 0x89: PushInteger(Kind::kBool, 0); return true;
      case 'K': PushInteger(Kind::kInt, static_cast<std::int64_t>(Number(1))); return true;
      case 'M': PushInteger(Kind::kInt, static_cast<std::int64_t>(Number(2))); return true;
      case 'J': PushInteger(Kind::kInt, static_cast<std::int32_t>(static_cast<std::uint32_t>(Number(4)))); return true;
      case 0x8a: PushLong(Number(1)); return true;
      case 0x8b: PushLong(Number(4)); return true;
      case 'G': PushFloat(); return true;
      case 0x8c: case 'C': PushString(Number(1)); return true;
      case 'X': case 'B': PushString(Number(4)); return true;
      case 0x8d: case 0x8e: PushString(Number(8)); return true;
      default: return false;
    }
  }

  bool ExecuteContainer(unsigned char opcode) {
    switch (opcode) {
      case '(': PushMark(); return true;
      case ']': case ')': PushContainer(Kind::kList); return true;
      case '}': PushContainer(Kind::kDict); return true;
      case 0x85: PushContainer(Kind::kList, Take(1)); return true;
      case 0x86: PushContainer(Kind::kList, Take(2)); return true;
      case 0x87: PushContainer(Kind::kList, Take(3)); return true;
      case 't': PushContainer(Kind::kList, TakeToMark()); return true;
      case 'a': Append(Kind::kList, Take(1)); return true;
      case 'e': Append(Kind::kList, TakeToMark()); return true;
      case 's': Append(Kind::kDict, Take(2)); return true;
      case 'u': Append(Kind::kDict, TakeToMark()); return true;
      case '0': Pop(); CountDropped(); return true;
      case '1': TakeToMark(); CountDropped(); return true;
      default: return false;
    }
  }

  bool ExecuteMemo(unsigned char opcode) {
    switch (opcode) {
      case 'q': Memoize(Number(1)); return true;
      case 'r': Memoize(Number(4)); return true;
      case 0x94: Memoize(memo_.size()); return true;
      case 'h': Recall(Number(1)); return true;
      case 'j': Recall(Number(4)); return true;
      case 0x95: Number(8); return true;  // a frame's length: for readers that read ahead
      default: return false;
    }
  }

  TextSource& source_;
  PickleVisitor& visitor_;
  PickleData& data_;
  std::unique_ptr<char[]> buffer_;
  std::size_t position_ = 0, end_ = 0;
  std::uint64_t base_ = 0;  // offset of buffer_[0] in the file
  // What was made since a mark: where it begins on the stack, and how many values are no dicts.
  struct Level {
    std::size_t begin, plain;
  };
  std::vector<Level> levels_ = {{0, 0}};
  std::deque<PickleValue> stack_;  // of millions: growing copies none
  std::vector<PickleValue> memo_;
  std::size_t made_ = 0, dropped_ = 0;
  PickleProblem problem_;
};

PickleProblem ReadPickle(TextSource& source, PickleVisitor& visitor, PickleData& data, PickleValue& root) {
  return PickleMachine(source, visitor, data).Run(root);
}

}  // namespace cuheap::analysis
