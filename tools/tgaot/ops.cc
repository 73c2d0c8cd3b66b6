// tgaot ops: the ONNX operators that can be imported, from the import tables themselves.
#include <cstdio>

#include "frontend/onnx_op.h"
#include "verbs.h"

namespace {

void print(const std::string& filter) {
  int built = 0, refused = 0;
  std::printf("%-40s %5s  %-10s %s\n", "operator", "since", "family", "");
  for (const tg::OpRow& r : tg::op_table()) {
    std::string name = r.domain.empty() ? std::string(r.name) : tg::str(r.domain, "::", r.name);
    if (name.find(filter) == name.npos) continue;
    std::printf("%-40s %5d  %-10.*s %s\n", name.c_str(), r.since, int(r.family.size()), r.family.data(), r.refused ? tg::str("refused: ", r.refused).c_str() : "");
    ++(r.refused ? refused : built);
  }
  std::printf("%d rows, %d more that say why they are refused\n", built, refused);
}

}  // namespace

void add_ops(CLI::App& app) {
  auto filter = std::make_shared<std::string>();
  Verb(app, "ops", "the ONNX operators that can be imported")
      .option("filter", filter.get(), "only those whose name contains this")
      .run([filter] { print(*filter); });
}
