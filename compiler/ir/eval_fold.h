// The step and merge of a FOLD as a short list of scalar instructions over its placeholders.
#pragma once
#include <span>
#include <vector>

#include "ir/uop.h"

namespace tg {

class FoldBody {
 public:
  explicit FoldBody(UOp fold);
  // state = step(in, state); every new state sees the old ones.
  void step(std::span<const u64> in, std::vector<u64>& state);
  // side0 = merge(side0, side1).
  void merge(std::vector<u64>& side0, std::span<const u64> side1);

 private:
  struct Instr {
    UOp node;
    std::vector<u32> src;
  };
  struct Program {
    std::vector<Instr> code;
    std::vector<u32> results;
  };
  static Program compile(std::span<const UOp> roots);
  void run(const Program& p, std::span<const u64> in, std::span<const u64> state, std::span<const u64> side1);
  Program step_, merge_;
  std::vector<u64> regs_, out_;
};

}  // namespace tg
