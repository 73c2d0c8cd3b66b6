// A padded input under a convolution is copied first, so that its border lies around it (borders.cc) and no tap is tested: a test for each
// product costs more than writing the input once more. So is a padded part of a larger value: where its border would be lie other elements.
// Scratch buffers need no copy, their producers store the border. Nor does a depthwise
// convolution from an input to an output of the model: it has few products, and its window slides along the rows as they lie.
#include <algorithm>

#include "ir/bounds.h"
#include "schedule/realize.h"
#include "schedule/schedule.h"

namespace tg {
namespace {

// Where the copy pays: products an element of the input, and in all.
constexpr f64 kReadings = 8, kProducts = 1 << 18;

// A part whose border would lie on what is beside it.
bool is_cut_out(UOp pad) {
  UOp part = pad.src(0);
  if (!part.is(Op::Shrink)) return false;
  Shape wide = shape(pad), inner = shape(part), from = shape(part.src(0));
  for (size_t a = 0; a < inner.size(); a++)
    if (wide[a] != inner[a] && inner[a] != from[a]) return true;
  return false;
}

// The PAD below movement ops whose source is an input or a view of one, or cut out of something larger.
UOp padded_input(UOp u) {
  UOp pad;
  while (is_movement(u.op()) && !u.is(Op::Concat)) {
    if (u.is(Op::Pad)) {
      pad = u;
      if (is_cut_out(pad)) return pad;
    }
    u = u.src(0);
  }
  return u.is(Op::Param) ? pad : UOp{};
}

f64 count(UOp u) { return f64(most_elems(shape(u))); }

// A window alone is summed for each place of the input, and no other sum reads the result.
bool slides_alone(UOp u, UOp pad, Memo<u8>& summed) {
  constexpr f64 kMostWindow = 49;
  f64 input = count(pad.src(0));
  return !summed[u] && count(u.src(0)) <= kMostWindow * count(u) && count(u) <= 1.25 * input && input <= 1.25 * count(u);
}

}  // namespace

UOp copy_padded_inputs(UOp sink) {
  std::vector<UOp> order = toposort(sink);
  Memo<u8> copied, summed;
  copied[sink], summed[sink];
  for (size_t i = order.size(); i-- > 0;)
    for (UOp s : order[i].src()) summed[s] |= summed[order[i]] | order[i].in(Op::Reduce | Op::Fold);
  bool any = false;
  for (UOp u : order) {
    if (!u.is(Op::Reduce) || u.arg<ReduceArg>().kind != ReduceKind::Add) continue;
    UOp body = u.src(0);
    while (body.is(Op::Cast)) body = body.src(0);
    if (!body.is(Op::Mul)) continue;
    for (UOp side : body.src())
      if (UOp pad = padded_input(side); pad && count(body) > std::max(kProducts, kReadings * count(pad.src(0))) && !slides_alone(u, pad, summed))
        copied[pad] = 1, any = true;
  }
  if (!any) return sink;
  Memo<UOp> to;
  to[sink];
  for (UOp u : order) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (copied[u]) src[0] = tensor::contiguous(src[0]);
    to[u] = with_src(u, src);
    if (to[u] != u) carry_asked(u, to[u]);
  }
  return to[sink];
}

}  // namespace tg
