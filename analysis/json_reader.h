// Reads JSON (RFC 8259) from a stream, piece by piece: the text is never in memory as a whole, errors have a place
// (byte and JSON path), and a file that is no JSON fails at its first bytes, however long it is.
//
//   JsonReader in(source);
//   if (in.EnterObject()) {
//     std::string name;
//     while (in.NextMember(name)) name == "version" ? in.Read(version) : in.Skip();
//   }
//   in.ExpectEnd();
//   if (!in.ok()) ... in.problem(), in.place()
//
// Errors are sticky: after the first one every call returns false and changes nothing.
#ifndef CUHEAP_ANALYSIS_JSON_READER_H_
#define CUHEAP_ANALYSIS_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace cuheap::analysis {

// Where the text comes from.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // Fills at most `bytes` of `out`; 0 at the end, or after an error.
  virtual std::size_t Read(char* out, std::size_t bytes) = 0;
  // Why the text could not be read; empty: it could.
  virtual const std::string& error() const = 0;
};

class JsonReader {
 public:
  explicit JsonReader(TextSource& source);
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  bool ok() const { return problem_.empty(); }
  // What is wrong, and where: "byte 812 ($.events.stack[3])".
  const std::string& problem() const { return problem_; }
  const std::string& place() const { return place_; }
  // The text ended before the value did.
  bool cut_off() const { return cut_off_; }

  bool EnterObject();
  // The next member's name; false at the object's end (which is consumed) or on an error.
  bool NextMember(std::string& name);
  bool EnterArray();
  // False at the array's end (which is consumed) or on an error.
  bool NextElement();

  // One value of that type. Integers: written without fraction and exponent, in range of the type.
  bool Read(std::string& value);
  bool Read(bool& value);
  template <typename Integer>
    requires std::is_integral_v<Integer>
  bool Read(Integer& value) {
    if constexpr (std::is_signed_v<Integer>) {
      std::int64_t wide = 0;
      if (!ReadSigned(wide, std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max())) return false;
      value = static_cast<Integer>(wide);
    } else {
      std::uint64_t wide = 0;
      if (!ReadUnsigned(wide, std::numeric_limits<Integer>::max())) return false;
      value = static_cast<Integer>(wide);
    }
    return true;
  }
  // An array of values. At most `limit`.
  // Values: a vector, or what is filled like one.
  template <typename Values>
  bool ReadArray(Values& values, std::size_t limit) {
    using Value = typename Values::value_type;
    values.clear();
    if (!EnterArray()) return false;
    while (NextElement()) {
      if (values.size() == limit) return Fail("more than " + std::to_string(limit) + " elements");
      Value value{};
      if (!Read(value)) return false;
      values.push_back(std::move(value));
      if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) ReadPlainElements(values, limit);
    }
    return ok();
  }

  // Any one value.
  bool Skip();
  // Nothing but white space may follow.
  bool ExpectEnd();

  // Reports an error found by the caller at the present place. Returns false.
  bool Fail(const std::string& problem);

 private:
  // Elements of an array of integers, as they are written by machines: digits and a comma, nothing between. It ends
  // before the first that is anything else, or that may not lie in the buffer as a whole; nothing is judged here.
  template <typename Values>
  void ReadPlainElements(Values& values, std::size_t limit) {
    using Value = typename Values::value_type;
    std::uint64_t value = 0;
    while (values.size() < limit &&
           NextPlainElement(value, static_cast<std::uint64_t>(std::numeric_limits<Value>::max())))
      values.push_back(static_cast<Value>(value));
  }
  bool NextPlainElement(std::uint64_t& value, std::uint64_t most) {
    constexpr std::size_t kMostDigits = 19;  // more may not fit 64 bits
    if (end_ - position_ < kMostDigits + 2) return false;
    const char* const begin = buffer_.get() + position_;
    if (*begin != ',') return false;
    const char* at = begin + 1;
    std::uint64_t sum = 0;
    for (unsigned digit; (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9; ++at) {
      if (at - begin > static_cast<std::ptrdiff_t>(kMostDigits)) return false;
      sum = sum * 10 + digit;
    }
    const std::ptrdiff_t digits = at - begin - 1;
    if (digits == 0 || (*at != ',' && *at != ']') || (begin[1] == '0' && digits > 1) || sum > most) return false;
    ++levels_.back().count;
    position_ += static_cast<std::size_t>(at - begin);
    value = sum;
    return true;
  }

  struct Level {
    bool array;
    std::uint64_t count;  // elements begun
    std::string name;     // of the present member
  };

  int Peek() { return position_ < end_ || Refill() ? static_cast<unsigned char>(buffer_[position_]) : -1; }
  void Advance() { ++position_; }
  bool Refill();
  bool Syntax(const std::string& problem);
  void SkipSpace();
  bool Expect(char wanted, const char* what);
  bool Enter(char bracket, bool array);
  bool NextPart(char bracket, bool& more);
  bool ReadUnsigned(std::uint64_t& value, std::uint64_t limit);
  bool ReadSigned(std::int64_t& value, std::int64_t least, std::int64_t most);
  bool ReadDigits(std::uint64_t& value);
  bool EndOfInteger();
  bool ReadText(std::string* value);
  bool ReadEscape(std::string* value);
  bool ReadHex4(std::uint32_t& unit);
  bool ReadUtf8(unsigned char first, std::string* value);
  bool SkipNumber();
  bool SkipDigits();
  bool SkipWord(const char* word);
  bool SkipScalar(int first);
  std::string Path() const;

  TextSource& source_;
  std::unique_ptr<char[]> buffer_;  // not cleared: readers of small texts are made by the thousand in tests
  std::size_t position_ = 0, end_ = 0;
  std::uint64_t base_ = 0;  // offset of buffer_[0] in the text
  bool at_end_ = false;
  bool cut_off_ = false;
  std::vector<Level> levels_;
  std::string problem_, place_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JSON_READER_H_
