// Reads the encodings of DWARF and of .eh_frame from memory that is trusted as the C++ runtime trusts it.
#ifndef CUHEAP_INTERPOSE_STACKS_DWARF_READER_H_
#define CUHEAP_INTERPOSE_STACKS_DWARF_READER_H_

#include <cstdint>
#include <cstring>

namespace cuheap::stacks {

class DwarfReader {
 public:
  explicit DwarfReader(const std::uint8_t* position) : position_(position) {}

  const std::uint8_t* position() const { return position_; }
  void MoveTo(const std::uint8_t* position) { position_ = position; }
  void Skip(std::uint64_t bytes) { position_ += bytes; }
  // True once an encoding came that is not known; what was read then is 0.
  bool failed() const { return failed_; }

  template <typename T>
  T Fixed() {
    T value;
    std::memcpy(&value, position_, sizeof(value));
    position_ += sizeof(value);
    return value;
  }
  std::uint8_t U8() { return *position_++; }

  std::uint64_t Uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint8_t byte = *position_++;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

  std::int64_t Sleb() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte;
    do {
      byte = *position_++;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }

  // A pointer in one of the DW_EH_PE encodings; data_base is what "data relative" is relative to.
  std::uint64_t Encoded(std::uint8_t encoding, std::uint64_t data_base) {
    if (encoding == kOmit) return 0;
    const auto here = reinterpret_cast<std::uint64_t>(position_);
    const std::uint64_t value = EncodedValue(encoding & 0x0F);
    if (failed_ || value == 0) return value;  // 0 is a null pointer, whatever it is relative to
    switch (encoding & 0x70) {
      case 0x00:
        return value;
      case 0x10:  // relative to the field
        return value + here;
      case 0x30:
        return value + data_base;
      default:
        failed_ = true;
        return 0;
    }
  }

 private:
  static constexpr std::uint8_t kOmit = 0xFF;

  std::uint64_t EncodedValue(std::uint8_t format) {
    switch (format) {
      case 0x00:  // absolute
      case 0x04:
      case 0x0C:
        return Fixed<std::uint64_t>();
      case 0x01:
        return Uleb();
      case 0x02:
        return Fixed<std::uint16_t>();
      case 0x03:
        return Fixed<std::uint32_t>();
      case 0x09:
        return static_cast<std::uint64_t>(Sleb());
      case 0x0A:
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(Fixed<std::int16_t>()));
      case 0x0B:
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(Fixed<std::int32_t>()));
      default:
        failed_ = true;
        return 0;
    }
  }

  const std::uint8_t* position_;
  bool failed_ = false;
};

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_DWARF_READER_H_
