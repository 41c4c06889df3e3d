#include "interpose/stacks/frame_rule.h"

#include <cstring>

#include "interpose/stacks/dwarf_reader.h"

namespace cuheap::stacks {
namespace {

constexpr std::uint64_t kFramePointer = 6;  // DWARF numbers of x86-64
constexpr std::uint64_t kStackPointer = 7;
constexpr std::uint64_t kReturnAddress = 16;
constexpr unsigned kMaxRemembered = 8;

// ---- .eh_frame_hdr: where the description of an address lies ----

struct TableEntry {
  std::int32_t location;  // both relative to the header
  std::int32_t description;
};

// The frame description entry that may cover pc, or nullptr.
const std::uint8_t* FindDescription(std::uint64_t pc, const void* eh_frame_hdr) {
  const auto* header = static_cast<const std::uint8_t*>(eh_frame_hdr);
  constexpr std::uint8_t kVersion = 1, kDataRelativeSigned4 = 0x3B;
  if (header[0] != kVersion || header[3] != kDataRelativeSigned4) return nullptr;  // all linkers write this table
  const auto base = reinterpret_cast<std::uint64_t>(header);
  DwarfReader reader(header + 4);
  reader.Encoded(header[1], base);
  const std::uint64_t count = reader.Encoded(header[2], base);
  if (reader.failed() || count == 0) return nullptr;
  const std::uint8_t* table = reader.position();
  const auto entry_at = [table](std::uint64_t index) {
    TableEntry entry;
    std::memcpy(&entry, table + index * sizeof(entry), sizeof(entry));
    return entry;
  };
  const auto wanted = static_cast<std::int64_t>(pc - base);
  if (wanted < entry_at(0).location) return nullptr;
  std::uint64_t low = 0, high = count;  // the answer is in [low, high)
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (entry_at(middle).location <= wanted) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return header + entry_at(low).description;
}

// ---- the entries ----

struct CommonEntry {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation_data = false;
  bool signal_frame = false;
  const std::uint8_t* instructions = nullptr;
  const std::uint8_t* end = nullptr;
};

// The length field of an entry: where its content begins and ends.
bool ReadExtent(const std::uint8_t* entry, const std::uint8_t*& content, const std::uint8_t*& end) {
  std::uint32_t length;
  std::memcpy(&length, entry, 4);
  content = entry + 4;
  std::uint64_t bytes = length;
  if (length == 0xFFFFFFFF) {
    std::memcpy(&bytes, entry + 4, 8);
    content = entry + 12;
  }
  end = content + bytes;
  return bytes != 0;
}

bool ReadCommonEntry(const std::uint8_t* entry, CommonEntry& out) {
  const std::uint8_t* content;
  if (!ReadExtent(entry, content, out.end)) return false;
  DwarfReader reader(content + 4);  // after the id
  const std::uint8_t version = reader.U8();
  if (version != 1 && version != 3 && version != 4) return false;
  const char* augmentation = reinterpret_cast<const char*>(reader.position());
  reader.Skip(std::strlen(augmentation) + 1);
  if (version == 4) reader.Skip(2);  // address and segment size
  out.code_alignment = reader.Uleb();
  out.data_alignment = reader.Sleb();
  const std::uint64_t return_register = version == 1 ? reader.U8() : reader.Uleb();
  if (return_register != kReturnAddress) return false;
  if (augmentation[0] == 'z') {
    out.has_augmentation_data = true;
    const std::uint64_t size = reader.Uleb();
    const std::uint8_t* after = reader.position() + size;
    for (const char* letter = augmentation + 1; *letter != '\0'; ++letter) {
      if (*letter == 'R') {
        out.pointer_encoding = reader.U8();
      } else if (*letter == 'P') {
        const std::uint8_t encoding = reader.U8();
        reader.Encoded(encoding & 0x7F, 0);
      } else if (*letter == 'L') {
        reader.U8();
      } else if (*letter == 'S') {
        out.signal_frame = true;
      } else if (*letter != 'B') {
        break;  // unknown: its data is skipped with the rest
      }
    }
    reader.MoveTo(after);
  } else if (augmentation[0] != '\0') {
    return false;
  }
  out.instructions = reader.position();
  return !reader.failed();
}

// ---- the rows: what the instructions say about one address ----

struct RegisterRule {
  enum Kind : std::uint8_t { kUnspecified, kUndefined, kSame, kOffset, kExpression, kOther } kind = kUnspecified;
  std::int64_t offset = 0;                   // from the CFA
  const std::uint8_t* expression = nullptr;  // at its length
};

struct Row {
  bool cfa_is_expression = false;
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  const std::uint8_t* cfa_expression = nullptr;
  RegisterRule frame_pointer;
  RegisterRule return_address;
};

class RowMachine {
 public:
  RowMachine(const CommonEntry& common, std::uint64_t start) : common_(common), location_(start) {}

  // Runs the instructions until the row that covers pc is complete. False: something unknown.
  bool Run(const std::uint8_t* begin, const std::uint8_t* end, std::uint64_t pc);
  // The rows before this point are what DW_CFA_restore goes back to.
  void KeepAsInitial() { initial_ = row_; }
  const Row& row() const { return row_; }

 private:
  // Rules of registers that lead nowhere go to a scratch rule.
  RegisterRule& Rule(std::uint64_t number) {
    if (number == kFramePointer) return row_.frame_pointer;
    if (number == kReturnAddress) return row_.return_address;
    return scratch_;
  }
  void Restore(std::uint64_t number) {
    if (number == kFramePointer) row_.frame_pointer = initial_.frame_pointer;
    if (number == kReturnAddress) row_.return_address = initial_.return_address;
  }
  void SetOffset(std::uint64_t number, std::int64_t offset) {
    RegisterRule& rule = Rule(number);
    rule.kind = RegisterRule::kOffset;
    rule.offset = offset;
  }
  void SetKind(std::uint64_t number, RegisterRule::Kind kind) { Rule(number).kind = kind; }
  void SetCfa(std::uint64_t number, std::int64_t offset) {
    row_.cfa_is_expression = false;
    row_.cfa_register = number;
    row_.cfa_offset = offset;
  }
  bool RunExtended(std::uint8_t opcode, DwarfReader& reader);
  bool RunRegisterRule(std::uint8_t opcode, DwarfReader& reader);

  const CommonEntry& common_;
  std::uint64_t location_;
  Row row_;
  Row initial_;
  RegisterRule scratch_;
  Row remembered_[kMaxRemembered];
  unsigned remembered_count_ = 0;
};

bool RowMachine::Run(const std::uint8_t* begin, const std::uint8_t* end, std::uint64_t pc) {
  DwarfReader reader(begin);
  while (reader.position() < end && location_ <= pc) {
    const std::uint8_t opcode = reader.U8();
    const std::uint8_t low = opcode & 0x3F;
    switch (opcode >> 6) {
      case 1:  // DW_CFA_advance_loc
        location_ += low * common_.code_alignment;
        break;
      case 2:  // DW_CFA_offset
        SetOffset(low, static_cast<std::int64_t>(reader.Uleb()) * common_.data_alignment);
        break;
      case 3:  // DW_CFA_restore
        Restore(low);
        break;
      default:
        if (!RunExtended(opcode, reader)) return false;
    }
  }
  return !reader.failed();
}

bool RowMachine::RunExtended(std::uint8_t opcode, DwarfReader& reader) {
  const std::int64_t factor = common_.data_alignment;
  switch (opcode) {
    case 0x00:  // DW_CFA_nop
      return true;
    case 0x01:  // DW_CFA_set_loc
      location_ = reader.Encoded(common_.pointer_encoding, 0);
      return true;
    case 0x02:  // DW_CFA_advance_loc1, 2, 4
      location_ += reader.U8() * common_.code_alignment;
      return true;
    case 0x03:
      location_ += reader.Fixed<std::uint16_t>() * common_.code_alignment;
      return true;
    case 0x04:
      location_ += reader.Fixed<std::uint32_t>() * common_.code_alignment;
      return true;
    case 0x0A:  // DW_CFA_remember_state
      if (remembered_count_ == kMaxRemembered) return false;
      remembered_[remembered_count_++] = row_;
      return true;
    case 0x0B:  // DW_CFA_restore_state
      if (remembered_count_ == 0) return false;
      row_ = remembered_[--remembered_count_];
      return true;
    case 0x0C: {  // DW_CFA_def_cfa
      const std::uint64_t number = reader.Uleb();
      SetCfa(number, static_cast<std::int64_t>(reader.Uleb()));
      return true;
    }
    case 0x12: {  // DW_CFA_def_cfa_sf
      const std::uint64_t number = reader.Uleb();
      SetCfa(number, reader.Sleb() * factor);
      return true;
    }
    case 0x0D:  // DW_CFA_def_cfa_register
      SetCfa(reader.Uleb(), row_.cfa_offset);
      return true;
    case 0x0E:  // DW_CFA_def_cfa_offset
      row_.cfa_offset = static_cast<std::int64_t>(reader.Uleb());
      return true;
    case 0x13:  // DW_CFA_def_cfa_offset_sf
      row_.cfa_offset = reader.Sleb() * factor;
      return true;
    case 0x0F:  // DW_CFA_def_cfa_expression
      row_.cfa_is_expression = true;
      row_.cfa_expression = reader.position();
      reader.Skip(reader.Uleb());
      return true;
    case 0x2E:  // DW_CFA_GNU_args_size
      reader.Uleb();
      return true;
    default:
      return RunRegisterRule(opcode, reader);
  }
}

bool RowMachine::RunRegisterRule(std::uint8_t opcode, DwarfReader& reader) {
  const std::uint64_t number = reader.Uleb();
  switch (opcode) {
    case 0x05:  // DW_CFA_offset_extended
      SetOffset(number, static_cast<std::int64_t>(reader.Uleb()) * common_.data_alignment);
      return true;
    case 0x11:  // DW_CFA_offset_extended_sf
      SetOffset(number, reader.Sleb() * common_.data_alignment);
      return true;
    case 0x2F:  // DW_CFA_GNU_negative_offset_extended
      SetOffset(number, -static_cast<std::int64_t>(reader.Uleb()) * common_.data_alignment);
      return true;
    case 0x06:  // DW_CFA_restore_extended
      Restore(number);
      return true;
    case 0x07:  // DW_CFA_undefined
      SetKind(number, RegisterRule::kUndefined);
      return true;
    case 0x08:  // DW_CFA_same_value
      SetKind(number, RegisterRule::kSame);
      return true;
    case 0x09:  // DW_CFA_register
    case 0x14:  // DW_CFA_val_offset
      reader.Uleb();
      SetKind(number, RegisterRule::kOther);
      return true;
    case 0x15:  // DW_CFA_val_offset_sf
      reader.Sleb();
      SetKind(number, RegisterRule::kOther);
      return true;
    case 0x10:  // DW_CFA_expression
      SetKind(number, RegisterRule::kExpression);
      Rule(number).expression = reader.position();
      reader.Skip(reader.Uleb());
      return true;
    case 0x16:  // DW_CFA_val_expression
      SetKind(number, RegisterRule::kOther);
      reader.Skip(reader.Uleb());
      return true;
    default:
      return false;
  }
}

// ---- from a row to a rule ----

// "DW_OP_breg6 offset", alone or with DW_OP_deref after it: all that compilers write for rbp-based frames.
bool IsFramePointerPlus(const std::uint8_t* expression, bool deref, std::int64_t& offset) {
  constexpr std::uint8_t kBreg6 = 0x76, kDeref = 0x06;
  DwarfReader reader(expression);
  const std::uint64_t size = reader.Uleb();
  const std::uint8_t* end = reader.position() + size;
  if (size < 2 || reader.U8() != kBreg6) return false;
  offset = reader.Sleb();
  if (deref && (reader.position() >= end || reader.U8() != kDeref)) return false;
  return reader.position() == end && !reader.failed();
}

bool FitsOffset(std::int64_t offset) {
  constexpr std::int64_t kLimit = std::int64_t{1} << (FrameRule::kOffsetBits - 1);
  return offset >= -kLimit && offset < kLimit;
}

bool SetCfaRule(const Row& row, FrameRule& rule) {
  std::int64_t offset = row.cfa_offset;
  if (row.cfa_is_expression) {
    if (!IsFramePointerPlus(row.cfa_expression, true, offset)) return false;
    rule.cfa = CfaKind::kFramePointerDeref;
  } else if (row.cfa_register == kStackPointer) {
    rule.cfa = CfaKind::kStackPointer;
  } else if (row.cfa_register == kFramePointer) {
    rule.cfa = CfaKind::kFramePointer;
  } else {
    return false;
  }
  rule.cfa_offset = static_cast<std::int32_t>(offset);
  return FitsOffset(offset);
}

void SetSavedRule(const RegisterRule& saved, FrameRule& rule) {
  std::int64_t offset = saved.offset;
  rule.saved = SavedKind::kLost;
  if (saved.kind == RegisterRule::kUnspecified || saved.kind == RegisterRule::kSame) {
    rule.saved = SavedKind::kSame;
  } else if (saved.kind == RegisterRule::kOffset && FitsOffset(offset)) {
    rule.saved = SavedKind::kAtCfa;
    rule.saved_offset = static_cast<std::int32_t>(offset);
  } else if (saved.kind == RegisterRule::kExpression && IsFramePointerPlus(saved.expression, false, offset) &&
             FitsOffset(offset)) {
    rule.saved = SavedKind::kAtFrame;
    rule.saved_offset = static_cast<std::int32_t>(offset);
  }
}

FrameRule RuleOfRow(const Row& row) {
  FrameRule rule;
  if (row.return_address.kind == RegisterRule::kUndefined) {
    rule.cfa = CfaKind::kOutermost;
    return rule;
  }
  if (row.return_address.kind != RegisterRule::kOffset || row.return_address.offset != -8 || !SetCfaRule(row, rule)) {
    return FrameRule{};
  }
  SetSavedRule(row.frame_pointer, rule);
  return rule;
}

}  // namespace

FrameRule FindFrameRule(std::uint64_t pc, const void* eh_frame_hdr) {
  if (eh_frame_hdr == nullptr) return {};
  const std::uint8_t* entry = FindDescription(pc, eh_frame_hdr);
  if (entry == nullptr) return {};
  const std::uint8_t* content;
  const std::uint8_t* end;
  if (!ReadExtent(entry, content, end)) return {};
  std::uint32_t common_distance;
  std::memcpy(&common_distance, content, 4);
  CommonEntry common;
  if (common_distance == 0 || !ReadCommonEntry(content - common_distance, common)) return {};
  DwarfReader reader(content + 4);
  const std::uint64_t start = reader.Encoded(common.pointer_encoding, 0);
  const std::uint64_t length = reader.Encoded(common.pointer_encoding & 0x0F, 0);
  if (common.has_augmentation_data) reader.Skip(reader.Uleb());
  if (reader.failed() || pc - start >= length) return {};
  if (common.signal_frame) return FrameRule{CfaKind::kSignal, SavedKind::kSame, 0, 0};
  RowMachine machine(common, start);
  if (!machine.Run(common.instructions, common.end, start)) return {};
  machine.KeepAsInitial();
  if (!machine.Run(reader.position(), end, pc)) return {};
  return RuleOfRow(machine.row());
}

}  // namespace cuheap::stacks
