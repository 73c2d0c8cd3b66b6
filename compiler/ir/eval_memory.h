// Memory of the interpreter's kernel and linear forms: the caller's buffers, seen in the dtype of their PARAM, and arrays of their own.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "ir/eval.h"

namespace tg {

class EvalMemory {
 public:
  explicit EvalMemory(std::vector<Values>& buffers) : buffers_(buffers), views_(buffers.size()) {}
  // Where a PARAM has another dtype than its buffer, the buffer's bytes are read as the PARAM's kind; finish() turns them back.
  void finish();

  struct Array {
    std::vector<u64>* v = nullptr;
    std::vector<u8>* written = nullptr;  // of arrays that begin without contents
  };
  // The elements behind a PARAM, or a ROW, LOCAL of n elements.
  Array array(UOp buffer, i64 n);

  // Element i; `at` is named when it is outside or holds nothing.
  static u64 load(const Array& a, i64 i, UOp at);
  static void store(const Array& a, i64 i, u64 v, UOp at);

 private:
  std::vector<Values>& buffers_;
  std::vector<Values> views_;
  struct Own {
    std::vector<u64> v;
    std::vector<u8> written;
  };
  std::map<std::pair<Op, i64>, Own> own_;
};

}  // namespace tg
