// Reads pickles of plain data (numbers, strings, lists, tuples, dicts) without running any code in them: opcodes that
// name or build Python objects are errors. Protocols 2 to 5; format: CPython, Lib/pickletools.py, "opcodes".
//
// A snapshot of PyTorch has millions of small dicts that share their stacks through the memo. So that they need not all
// be kept, a visitor sees each dict when it is filled, and may put a number of its own in its place.
#ifndef CUHEAP_ANALYSIS_PICKLE_READER_H_
#define CUHEAP_ANALYSIS_PICKLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/json_reader.h"

namespace cuheap::analysis {

struct PickleValue {
  enum class Kind : std::uint8_t {
    kMark,  // never in what was read: a place of the memo that holds nothing
    kNone,
    kBool,
    kInt,     // `integer`
    kBig,     // from 2^63 to 2^64-1: `integer`, as unsigned
    kFloat,   // `real`
    kString,  // `integer` is its index; bytes, too
    kList,    // tuples, too; `integer` is the index of the container
    kDict,
    kRecord,  // what a visitor put in the place of a dict: `integer`
  };
  Kind kind = Kind::kNone;
  union {
    std::int64_t integer = 0;
    double real;
  };
  bool is(Kind wanted) const { return kind == wanted; }
};

// Everything that was read. Containers are shared as in Python: two equal indices are one object.
class PickleData {
 public:
  using Elements = std::vector<PickleValue>;  // of a dict: key, value, key, value, ...

  // The elements of a list or dict; of anything else none.
  const Elements& Of(const PickleValue& value) const;
  // Empty if it is no string.
  std::string_view Text(const PickleValue& value) const;
  // The value of a dict's key, None if it has no such key or is no dict.
  PickleValue Find(const PickleValue& dict, std::string_view key) const;
  // Integers, booleans as 0 and 1; nothing if it is none, or out of range.
  static std::optional<std::uint64_t> Unsigned(const PickleValue& value);
  static std::optional<std::int64_t> Signed(const PickleValue& value);

 private:
  friend class PickleMachine;
  static constexpr std::int64_t kNotReplaced = -1;
  // There are millions, most of them replaced: small, and without elements then.
  struct Container {
    std::unique_ptr<Elements> elements;  // null: none
    std::int64_t record = kNotReplaced;  // the number that a visitor put in its place
    bool replaced() const { return record != kNotReplaced; }
  };
  std::vector<std::string> strings_;
  std::deque<Container> containers_;  // millions: growing copies none
  Elements none_;
};

class PickleVisitor {
 public:
  virtual ~PickleVisitor() = default;
  // A dict was filled. Returns the number (0 or more) that stands for it from now on (its elements are dropped), or
  // nothing: keep it. It stays the same object: whoever shares it shares the number.
  virtual std::optional<std::int64_t> Filled(const PickleData& data, const PickleValue& dict) = 0;
};

struct PickleProblem {
  std::string text;   // empty: none
  std::string place;  // "byte 812"
  bool cut_off = false;
};

// Reads one pickle; what follows its end is left alone, as Python does. `root` is its value.
// Memory: proportional to the file at most (about 50 times, for a file of nothing but empty lists), less what the
// visitor replaces. Stops at the first error; a file that is no pickle fails at its first bytes.
PickleProblem ReadPickle(TextSource& source, PickleVisitor& visitor, PickleData& data, PickleValue& root);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_PICKLE_READER_H_
