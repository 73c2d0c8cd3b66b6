// The numeric contract, read from formats/README.md.
#pragma once
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace tg::test {

// The rows of the table below the heading, cells trimmed.
inline std::vector<std::vector<std::string>> contract_table(const std::string& heading) {
  std::ifstream f(TGAOT_SOURCE "/formats/README.md");
  TG_CHECK(f.good(), "no formats/README.md in ", TGAOT_SOURCE);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  bool in = false;
  int n = 0;
  while (std::getline(f, line)) {
    if (line == heading) in = true, n = 0;
    else if (in && line.starts_with("#")) break;
    if (!in || !line.starts_with("|")) continue;
    if (n++ < 2) continue;  // heads and rule
    std::vector<std::string> cells;
    std::stringstream s(line.substr(1));
    for (std::string c; std::getline(s, c, '|');) {
      size_t a = c.find_first_not_of(' '), b = c.find_last_not_of(' ');
      cells.push_back(a == std::string::npos ? "" : c.substr(a, b - a + 1));
    }
    rows.push_back(cells);
  }
  TG_CHECK(!rows.empty(), "formats/README.md has no table below ", heading);
  return rows;
}

// Ulps of each op: column 1 f32, column 2 f64.
inline std::map<std::string, double> contract_ulps(int column) {
  std::map<std::string, double> m;
  for (const std::vector<std::string>& row : contract_table("### Operators")) {
    std::stringstream names(row[0]);
    double most = row[size_t(column)] == "exact" ? 0 : std::stod(row[size_t(column)]);
    for (std::string op; std::getline(names, op, ',');) m[op.substr(op.find_first_not_of(' '))] = most;
  }
  return m;
}

}  // namespace tg::test
