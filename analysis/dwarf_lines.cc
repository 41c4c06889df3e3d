#include "analysis/dwarf_lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "analysis/symbol_table.h"

namespace cuheap::analysis {
namespace {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

// The path of a source file: names in DWARF may be relative to the folder in which the compiler ran.
std::string SourcePath(const char* name, Dwarf_Die* unit) {
  if (name == nullptr || *name == 0) return "";
  std::filesystem::path path(name);
  if (path.is_relative()) {
    Dwarf_Attribute attribute;
    const char* folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    if (folder != nullptr) path = std::filesystem::path(folder) / path;
  }
  return path.lexically_normal();
}

// The entry that declares what `die` is a copy or a definition of.
Dwarf_Die Declaration(Dwarf_Die die) {
  constexpr int kSteps = 8;  // origin, then specification; more only in damaged files
  for (int step = 0; step < kSteps; ++step) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if (dwarf_formref_die(dwarf_attr(&die, DW_AT_abstract_origin, &attribute), &next) == nullptr &&
        dwarf_formref_die(dwarf_attr(&die, DW_AT_specification, &attribute), &next) == nullptr) {
      break;
    }
    die = next;
  }
  return die;
}

// "name::space::Class::" of an entry without linker name (internal linkage).
std::string ScopePrefix(Dwarf_Die declaration) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(&declaration, &scopes);
  const std::unique_ptr<Dwarf_Die[], FreeDeleter> owner(scopes);
  std::string prefix;
  for (int i = 1; i < count; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type) continue;
    const char* name = dwarf_diename(&scopes[i]);
    if (name == nullptr) name = tag == DW_TAG_namespace ? "(anonymous namespace)" : "(anonymous)";
    prefix.insert(0, "::").insert(0, name);
  }
  return prefix;
}

std::string FunctionName(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    const char* linker_name = dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
    if (linker_name != nullptr) return ReadableName(linker_name);
  }
  const char* plain = dwarf_diename(die);
  return plain == nullptr ? "" : ScopePrefix(Declaration(*die)) + plain;
}

struct Place {
  std::string file;
  std::uint32_t line = 0;
};

Place PlaceOf(Dwarf_Die* unit, std::uint64_t pc) {
  Place place;
  Dwarf_Line* line = dwarf_getsrc_die(unit, pc);
  int number = 0;
  if (line == nullptr) return place;
  place.file = SourcePath(dwarf_linesrc(line, nullptr, nullptr), unit);
  if (dwarf_lineno(line, &number) == 0 && number > 0) place.line = static_cast<std::uint32_t>(number);
  return place;
}

// Where the inlined function `die` was called.
Place CallPlaceOf(Dwarf_Die* unit, Dwarf_Die* die) {
  Place place;
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  Dwarf_Files* files = nullptr;
  if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &value) == 0 &&
      dwarf_getsrcfiles(unit, &files, nullptr) == 0) {
    place.file = SourcePath(dwarf_filesrc(files, value, nullptr, nullptr), unit);
  }
  if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &value) == 0) {
    place.line = static_cast<std::uint32_t>(value);
  }
  return place;
}

// The entries whose code holds the address, innermost first. dwarf_getscopes() goes from an inlined function to the
// scope of its definition; the second step gives the entries around its copy instead.
std::unique_ptr<Dwarf_Die[], FreeDeleter> ScopesAt(Dwarf_Die* unit, std::uint64_t pc, int& count) {
  Dwarf_Die* lexical = nullptr;
  count = dwarf_getscopes(unit, pc, &lexical);
  const std::unique_ptr<Dwarf_Die[], FreeDeleter> lexical_owner(lexical);
  if (count <= 0) return nullptr;
  Dwarf_Die* around = nullptr;
  count = dwarf_getscopes_die(&lexical[0], &around);
  return std::unique_ptr<Dwarf_Die[], FreeDeleter>(around);
}

}  // namespace

DwarfLines::DwarfLines(Dwfl_Module* module) : module_(module) {
  Dwarf_Addr bias = 0;
  available_ = dwfl_module_getdwarf(module, &bias) != nullptr;
}

// clang writes no index of addresses (.debug_aranges) and assembler files have none: then the units' own ranges are
// used.
void DwarfLines::ListUnits() {
  units_listed_ = true;
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = nullptr;
  while ((unit = dwfl_module_nextcu(module_, unit, &bias)) != nullptr) {
    Dwarf_Addr base = 0, begin = 0, end = 0;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(unit, at, &base, &begin, &end)) > 0;) {
      if (begin < end) units_.push_back({begin + bias, end + bias, *unit, bias});
    }
  }
  std::stable_sort(units_.begin(), units_.end(),
                   [](const UnitRange& a, const UnitRange& b) { return a.begin < b.begin; });
}

bool DwarfLines::FindUnit(std::uint64_t address, Dwarf_Die& unit, std::uint64_t& bias) {
  Dwarf_Addr unit_bias = 0;
  if (const Dwarf_Die* found = dwfl_module_addrdie(module_, address, &unit_bias)) {
    unit = *found;
    bias = unit_bias;
    return true;
  }
  if (!units_listed_) ListUnits();
  auto next = std::upper_bound(units_.begin(), units_.end(), address,
                               [](std::uint64_t value, const UnitRange& range) { return value < range.begin; });
  if (next == units_.begin()) return false;
  --next;
  if (address >= next->end) return false;
  unit = next->unit;
  bias = next->bias;
  return true;
}

std::vector<SourceFrame> DwarfLines::Find(std::uint64_t address) {
  std::vector<SourceFrame> frames;
  Dwarf_Die unit;
  std::uint64_t bias = 0;
  if (!available_ || !FindUnit(address, unit, bias)) return frames;
  const std::uint64_t pc = address - bias;
  Place place = PlaceOf(&unit, pc);
  int count = 0;
  const auto scopes = ScopesAt(&unit, pc, count);
  for (int i = 0; i < count; ++i) {
    Dwarf_Die* scope = &scopes[i];
    const int tag = dwarf_tag(scope);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    frames.push_back({FunctionName(scope), place.file, place.line, tag == DW_TAG_inlined_subroutine, ""});
    if (tag == DW_TAG_subprogram) return frames;
    place = CallPlaceOf(&unit, scope);
  }
  // No function around it, as in assembler files: the line is known, the name comes from the symbol table.
  if (!place.file.empty()) frames.push_back({"", place.file, place.line, false, ""});
  return frames;
}

}  // namespace cuheap::analysis
