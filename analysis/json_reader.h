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
  template <typename Value>
  bool ReadArray(std::vector<Value>& values, std::size_t limit) {
    values.clear();
    if (!EnterArray()) return false;
    while (NextElement()) {
      if (values.size() == limit) return Fail("more than " + std::to_string(limit) + " elements");
      Value value{};
      if (!Read(value)) return false;
      values.push_back(std::move(value));
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
