#include "stages.h"

#include "base/error.h"
#include "ir/canonical.h"
#include "ir/eval_kernel.h"
#include "ir/eval_linear.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "schedule/schedule.h"

namespace tg::fuzz {
namespace {

std::vector<Values> start(const Schedule& s, const Case& c) {
  std::vector<Values> mem;
  for (const Buffer& b : s.buffers) {
    if (b.kind == Buffer::Input) mem.push_back(c.inputs[b.index]);
    else if (b.kind == Buffer::Constant) {
      const ConstantData& k = c.graph.constants[b.index];
      mem.push_back(decode(k.dtype, k.dims, k.bytes));
    } else {
      // What nothing writes shows: no kernel makes these numbers.
      mem.push_back({b.dtype, b.dims, std::vector<u64>(size_t(count(b.dims)), is_float(b.dtype) ? 0x40c81c8000000000 : u64(wrap_int(b.dtype.kind, 85)))});
    }
  }
  return mem;
}

std::vector<Values> outputs(const Schedule& s, const Case& c, const std::vector<Values>& mem) {
  std::vector<Values> out(c.graph.outputs.size());
  for (size_t i = 0; i < s.buffers.size(); i++)
    if (s.buffers[i].kind == Buffer::Output) out[s.buffers[i].index] = mem[i];
  return out;
}

// Runs the calls one after another; run(call, buffers) is one kernel.
template <class F>
std::vector<Values> run_calls(const Case& c, F run) {
  Target target;
  Schedule s = schedule(c.graph, target);
  std::vector<Values> mem = start(s, c);
  for (const Call& call : s.calls) {
    std::vector<Values> bufs;
    for (u32 b : call.buffers) bufs.push_back(mem[b]);
    try {
      run(call, bufs);
    } catch (const Error& e) {
      fail(call.name, ": ", e.what(), "\n", print(call.ast));
    }
    for (size_t i = 0; i < call.buffers.size(); i++)
      if (i < call.outputs) mem[call.buffers[i]] = std::move(bufs[i]);
      else if (!(mem[call.buffers[i]] == bufs[i])) fail(call.name, " writes buffer ", i, ", but says it writes ", call.outputs, "\n", print(call.ast));
  }
  return outputs(s, c, mem);
}

std::vector<Values> scheduled(const Case& c) {
  return run_calls(c, [](const Call& call, std::vector<Values>& bufs) {
    if (std::string bad = violation(Spec::Kernel, call.ast); !bad.empty()) fail(bad);
    eval_kernel(call.ast, bufs);
  });
}

// The canonical copy, from its text in another arena, as a worker process sees it.
std::vector<Values> canonical_form(const Case& c) {
  return run_calls(c, [](const Call& call, std::vector<Values>& bufs) {
    Canonical k = canonical(call.ast);
    Arena other;
    Arena::Scope scope(other);
    UOp ast = parse(print(k.ast));
    if (canonical(ast).digest != k.digest) fail("the digest changes when the canonical kernel is made canonical again");
    std::vector<Values> mine;
    for (i64 slot : k.slot_of) mine.push_back(bufs[size_t(slot)]);
    eval_kernel(ast, mine);
    for (size_t i = 0; i < mine.size(); i++) bufs[size_t(k.slot_of[i])] = std::move(mine[i]);
  });
}

constexpr Stage kStages[] = {
    {"schedule", scheduled},
    {"canonical", canonical_form},
};

}  // namespace

std::span<const Stage> stages() { return kStages; }

}  // namespace tg::fuzz
