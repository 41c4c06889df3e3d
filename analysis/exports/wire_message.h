// Messages in Protocol Buffers' wire format, as much of it as profile.proto needs. Format:
// https://protobuf.dev/programming-guides/encoding/.
#ifndef CUHEAP_ANALYSIS_EXPORTS_WIRE_MESSAGE_H_
#define CUHEAP_ANALYSIS_EXPORTS_WIRE_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cuheap::analysis {

class WireMessage {
 public:
  // int64, uint64 and bool fields. Zero is the default and is not written.
  void Number(std::uint32_t field, std::uint64_t value) {
    if (value == 0) return;
    Key(field, kVarint);
    Varint(value);
  }
  // Packed; nothing is written for none.
  void Numbers(std::uint32_t field, const std::vector<std::uint64_t>& values) {
    if (values.empty()) return;
    WireMessage packed;
    for (const std::uint64_t value : values) packed.Varint(value);
    Bytes(field, packed.text_);
  }
  // Strings and messages; written even if empty, since an element of a repeated field counts.
  void Bytes(std::uint32_t field, std::string_view bytes) {
    Key(field, kLengthDelimited);
    Varint(bytes.size());
    text_.append(bytes);
  }
  void Message(std::uint32_t field, const WireMessage& message) { Bytes(field, message.text_); }

  const std::string& text() const { return text_; }
  void Clear() { text_.clear(); }

 private:
  static constexpr std::uint32_t kVarint = 0, kLengthDelimited = 2;

  void Key(std::uint32_t field, std::uint32_t type) { Varint(std::uint64_t{field} << 3 | type); }
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_WIRE_MESSAGE_H_
