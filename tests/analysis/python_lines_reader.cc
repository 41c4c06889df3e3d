// Decodes line tables for python_lines_test.py: reads "VERSION FIRST_LINE BYTES TABLE" lines (VERSION major << 8 |
// minor, BYTES the length of the bytecode, TABLE in hexadecimal or "-") and answers each with the line of every code
// unit.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "analysis/python_lines.h"

int main() {
  std::ios::sync_with_stdio(false);
  unsigned version = 0;
  std::uint32_t first_line = 0;
  std::uint64_t bytes = 0;
  std::string hex;
  while (std::cin >> version >> first_line >> bytes >> hex) {
    std::vector<std::uint8_t> table;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      table.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    }
    for (std::uint64_t offset = 0; offset < bytes; offset += 2) {
      const std::uint32_t line =
          cuheap::analysis::PythonLine(static_cast<std::uint16_t>(version), table, first_line, offset);
      std::cout << (offset == 0 ? "" : " ") << line;
    }
    std::cout << '\n';
  }
  return 0;
}
