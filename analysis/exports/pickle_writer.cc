#include "analysis/exports/pickle_writer.h"

#include <array>

#include "analysis/printable.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint32_t kBatch = 1000;  // of Python's pickler

constexpr char kMark = '(', kStop = '.', kBinGet = 'h', kLongBinGet = 'j', kBinInt = 'J', kBinInt1 = 'K',
               kBinInt2 = 'M', kBinUnicode = 'X', kEmptyList = ']', kAppends = 'e', kEmptyDict = '}', kSetItems = 'u';
constexpr char kProto = '\x80', kTuple2 = '\x86', kNewTrue = '\x88', kNewFalse = '\x89', kLong1 = '\x8a',
               kShortBinUnicode = '\x8c', kMemoize = '\x94';
constexpr char kProtocol = 4;

std::string_view One(const char& opcode) { return {&opcode, 1}; }

}  // namespace

void PickleWriter::Begin() {
  Write(One(kProto));
  Write(One(kProtocol));
}

void PickleWriter::End() { Write(One(kStop)); }

void PickleWriter::LittleEndian(std::uint64_t value, int bytes) {
  std::array<char, 8> text;
  for (int i = 0; i < bytes; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i) & 0xFF);
  Write({text.data(), static_cast<std::size_t>(bytes)});
}

void PickleWriter::Unsigned(std::uint64_t value) {
  if (value <= 0xFF) {
    Write(One(kBinInt1));
    LittleEndian(value, 1);
  } else if (value <= 0xFFFF) {
    Write(One(kBinInt2));
    LittleEndian(value, 2);
  } else if (value <= 0x7FFFFFFF) {
    Write(One(kBinInt));
    LittleEndian(value, 4);
  } else if (value <= 0x7FFFFFFFFFFFFFFF) {
    // In two's complement, as few bytes as it takes, a free sign bit included.
    int bytes = 5;
    while (bytes < 8 && value >> (8 * bytes - 1) != 0) ++bytes;
    Write(One(kLong1));
    LittleEndian(static_cast<std::uint64_t>(bytes), 1);
    LittleEndian(value, bytes);
  } else {
    Write(One(kLong1));
    LittleEndian(9, 1);
    LittleEndian(value, 8);
    LittleEndian(0, 1);
  }
}

void PickleWriter::Signed(std::int64_t value) {
  if (value >= 0) {
    Unsigned(static_cast<std::uint64_t>(value));
    return;
  }
  Write(One(kLong1));
  LittleEndian(8, 1);
  LittleEndian(static_cast<std::uint64_t>(value), 8);
}

void PickleWriter::Bool(bool value) { Write(One(value ? kNewTrue : kNewFalse)); }

void PickleWriter::String(std::string_view text) {
  const auto [known, added] = strings_.try_emplace(std::string(text), shared_);
  if (!added) {
    Shared(known->second);
    return;
  }
  const std::string valid = ValidUtf8(text);
  const bool is_short = valid.size() <= 0xFF;
  Write(One(is_short ? kShortBinUnicode : kBinUnicode));
  LittleEndian(valid.size(), is_short ? 1 : 4);
  Write(valid);
  Share();
}

void PickleWriter::Pair(std::uint64_t first, std::uint64_t second) {
  Unsigned(first);
  Unsigned(second);
  Write(One(kTuple2));
}

void PickleWriter::BeginDict() {
  Write(One(kEmptyDict));
  Write(One(kMark));
}

void PickleWriter::EndDict() { Write(One(kSetItems)); }

PickleWriter::List PickleWriter::BeginList() {
  Write(One(kEmptyList));
  return {};
}

void PickleWriter::List::Element(PickleWriter& writer) {
  if (in_batch_ == kBatch) writer.EndList(*this);
  empty_ = false;
  if (in_batch_++ == 0) writer.Write(One(kMark));
}

void PickleWriter::EndList(List& list) {
  if (list.in_batch_ != 0) Write(One(kAppends));
  list.in_batch_ = 0;
}

std::uint32_t PickleWriter::Share() {
  Write(One(kMemoize));
  return shared_++;
}

void PickleWriter::Shared(std::uint32_t number) {
  Write(One(number <= 0xFF ? kBinGet : kLongBinGet));
  LittleEndian(number, number <= 0xFF ? 1 : 4);
}

}  // namespace cuheap::analysis
