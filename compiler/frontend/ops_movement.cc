// Shapes, constants and the moving of elements. https://onnx.ai/onnx/operators/
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/size_list.h"
#include "frontend/declared.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

// axes of an op: an attribute before `input_since`, input i from then on; absent: none.
std::optional<Ints> axes_of(OnnxNode& n, size_t i, bool attribute) {
  if (attribute) return n.has_attr("axes") ? std::optional(n.attr_ints("axes")) : std::nullopt;
  return n.has(i) ? std::optional(n.ints(i)) : std::nullopt;
}

Tensor reshape(OnnxNode& n) {
  Tensor x = n[0];
  if (auto d = n.declared(0, 1)) {
    n.must_have(sizes::reshaped(x.shape(), n[1], n.attr("allowzero", 0)), *d);
    return x.reshape(dims(IntSpan(*d)));
  }
  // A number that only the run knows is what the others leave.
  n.require(n[1].rank() == 1 && n[1].dim(0).is_const(), "the shape must be a list of fixed length");
  Shape s;
  bool open = false;
  for (i64 i = 0; i < n[1].size(0); i++)
    s.push_back(n.dim_or(1, i, [&](const Tensor&) {
      if (open) return n.dims(1).at(0);  // fails
      open = true;
      return idx(-1);
    }));
  std::optional<i64> rest;
  for (size_t i = 0; i < s.size(); i++) {
    if (s[i].is_const(0) && !n.attr("allowzero", 0)) {
      n.require(i64(i) < x.rank(), "dimension ", i, " is copied (0) from an input of rank ", x.rank());
      s[i] = x.dim(i64(i));
    } else if (s[i].is_const(-1)) {
      n.require(!rest, "reshape to ", shape_text(s), ": more than one -1");
      rest = i64(i);
    } else {
      n.require(size_bounds(s[i]).lo >= 0, "a dimension of ", s[i].str());
    }
  }
  return rest ? x.reshape(s, *rest) : x.reshape(s);
}

Tensor flatten(OnnxNode& n) {
  Tensor x = n[0];
  i64 a = n.attr("axis", 1);
  n.require(a >= -x.rank() && a <= x.rank(), "axis ", a, " for rank ", x.rank());
  if (a < 0) a += x.rank();
  const Shape& s = x.shape();
  return x.reshape(Shape{elems(Shape(s.begin(), s.begin() + a)), elems(Shape(s.begin() + a, s.end()))});
}

Tensor transpose(OnnxNode& n) {
  Ints o = n[0].all_axes();
  std::ranges::reverse(o);
  return n[0].permute(n.attr("perm", o));
}

template <bool attribute>
Tensor squeeze(OnnxNode& n) {
  Tensor x = n[0];
  if (auto d = n.declared(0, 1)) {
    n.must_have(sizes::without(x.shape(), n[1], false), *d);
    return x.reshape(dims(IntSpan(*d)));
  }
  if (auto a = axes_of(n, 1, attribute)) return x.squeeze(*a);
  Ints ones;
  for (i64 i = 0; i < x.rank(); i++)  // a free size that may be 1 is not
    if (x.dim(i).is_const(1)) ones.push_back(i);
  return x.squeeze(ones);
}
template <bool attribute>
Tensor unsqueeze(OnnxNode& n) {
  if (auto d = n.declared(0, 1)) {
    n.must_have(sizes::with_ones(n[0].shape(), n[1]), *d);
    return n[0].reshape(dims(IntSpan(*d)));
  }
  auto a = axes_of(n, 1, attribute);
  n.require(bool(a), "axes are missing");
  return n[0].unsqueeze(*a);
}

Tensor expand(OnnxNode& n) {
  Tensor x = n[0];
  if (auto d = n.declared(0, 1)) {
    n.must_have(sizes::broadcasted(x.shape(), n[1]), *d);
    return x.expand(*d);
  }
  n.require(n[1].rank() == 1 && n[1].dim(0).is_const(), "the shape must be a list of fixed length");
  Shape s;
  i64 r = n[1].size(0);
  for (i64 i = 0; i < r; i++)
    s.push_back(n.dim_or(1, i, [&](const Tensor& v) {
      i64 own = i - r + x.rank();  // an axis of more than 1 stays
      if (own < 0 || x.dim(own).is_const(1)) return n.measured(v, std::nullopt, 0, i);
      n.must_be(v.eq(v.like(1)) | v.eq(v.like(x.dim(own))), true, str("axis ", own, " of input 0 has ", x.dim(own).str(), " elements, and can become no other number"));
      return x.dim(own);
    }));
  const Shape* both[] = {&x.shape(), &s};
  return x.expand(broadcast(both));
}

Tensor concat(OnnxNode& n) {
  Tensors xs;
  for (size_t i = 0; i < n.inputs(); i++) xs.push_back(n[i]);
  return Tensor::concat(xs, n.attr_int("axis"));
}

Tensors split(OnnxNode& n) {
  Tensor x = n[0];
  i64 axis = n.attr("axis", 0), parts = i64(n.outputs());
  Shape sizes;
  if (n.opset() < 13)
    sizes = dims(IntSpan(n.attr("split", Ints{})));
  else if (n.declared(0, 1))
    for (i64 k = 0; k < parts; k++) {
      auto d = n.declared(size_t(k), 1);
      if (!d || i64(d->size()) != x.rank()) return sizes = n.dims(1), Tensors{};  // fails
      n.must_have(sizes::with(sizes::of(x.shape()), x.axis(axis), n[1].shrink(0, k, 1)), *d, size_t(k));
      sizes.push_back(idx((*d)[x.axis(axis)]));
    }
  else if (n.has(1))
    sizes = n.dims(1);
  if (sizes.empty()) {
    UOp m = x.dim(axis);
    if (n.has_attr("num_outputs")) {
      n.require(n.attr_int("num_outputs") == parts, "num_outputs is ", n.attr_int("num_outputs"), ", the node has ", parts, " outputs");
      UOp chunk = normal_dim((m + (parts - 1)) / parts);  // the last part may be smaller
      for (i64 i = 0; i < parts; i++) sizes.push_back(normal_dim(min(max(m - chunk * i, idx(0)), chunk)));
    } else {
      auto part = whole_quotient(m, idx(parts));
      n.require(bool(part), "axis of ", m.str(), " does not split into ", parts, " equal parts",
                m.is_const() ? "" : " for all sizes; give the size a multiple, --var NAME=MIN..MAX:MULTIPLE");
      sizes.assign(size_t(parts), *part);
    }
  }
  n.require(i64(sizes.size()) == parts, sizes.size(), " sizes for ", parts, " outputs");
  return x.split(axis, sizes);
}

Tensor slice_of(OnnxNode& n, const Shape& starts, const Shape& ends, const Ints& axes, const Ints& steps) {
  n.require(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
            "starts, ends, axes and steps have ", starts.size(), ", ", ends.size(), ", ", axes.size(), " and ", steps.size(), " numbers");
  Tensor x = n[0];
  (void)x.axes(axes);
  for (size_t i = 0; i < axes.size(); i++) x = x.slice(axes[i], starts[i], ends[i], steps[i]);
  return x;
}
Ints first_axes(size_t n) {
  Ints a;
  for (size_t i = 0; i < n; i++) a.push_back(i64(i));
  return a;
}
Tensor slice_1(OnnxNode& n) {
  Ints starts = n.attr_ints("starts");
  Ints ends = n.attr_ints("ends");
  return slice_of(n, dims(IntSpan(starts)), dims(IntSpan(ends)), n.attr("axes", first_axes(starts.size())), Ints(starts.size(), 1));
}
// Of starts, axes or steps known only at run time: every axis is read at begin + i*step.
Tensor slice_at_run_time(OnnxNode& n, const Ints& out) {
  Tensor x = n[0];
  n.require(i64(out.size()) == x.rank(), "the declared result has rank ", out.size(), ", the input ", x.rank());
  Tensor starts = n[1].cast(Kind::I64), k = Tensor::arange(starts.dim(0));
  Tensor axes = n.has(3) ? n[3].cast(Kind::I64) : k, steps = n.has(4) ? n[4].cast(Kind::I64) : Tensor::full(starts.shape(), Kind::I64, 1);
  axes = where(axes.lt(axes.like(0)), axes + f64(x.rank()), axes);
  std::vector<Tensor> all, lengths;
  for (i64 a = 0; a < x.rank(); a++) {
    Tensor mine = axes.eq(axes.like(f64(a))), zero = starts.like(0);
    Tensor begin = where(mine, starts, zero).sum(Ints{0}), step = where(mine, steps, zero).sum(Ints{0});
    step = where(step.eq(step.like(0)), step.like(1), step);  // the axis is not sliced
    Tensor m = begin.like(x.dim(a)), end = where(mine, n[2].cast(Kind::I64), zero).sum(Ints{0});
    end = where(mine.cast(Kind::I64).sum(Ints{0}).eq(end.like(0)), m, end);
    lengths.push_back(sizes::sliced(m, begin, end, step));
    begin = where(begin.lt(begin.like(0)), begin + m, begin);
    begin = begin.clip(begin.like(0), where(step.lt(step.like(0)), m - 1.0, m));
    Shape s(x.rank(), idx(1));
    s[a] = idx(out[a]);
    all.push_back((begin + Tensor::arange(out[a]) * step).reshape(s));
  }
  n.must_have(sizes::list(lengths), out);
  return x.gather(all);
}
// Of starts or ends known only at run time, along given axes by given steps: the run counts the elements.
Tensor slice_counted(OnnxNode& n) {
  Tensor x = n[0];
  i64 count = n[1].size(0);
  Ints axes = n.has(3) ? n.ints(3) : first_axes(size_t(count)), steps = n.has(4) ? n.ints(4) : Ints(size_t(count), 1);
  n.require(i64(axes.size()) == count && i64(steps.size()) == count, "starts, axes and steps have ", count, ", ", axes.size(), " and ", steps.size(), " numbers");
  (void)x.axes(axes);
  for (i64 i = 0; i < count; i++) {
    i64 axis = x.axis(axes[size_t(i)]), step = steps[size_t(i)];
    n.require(step != 0, "a step of 0");
    Tensor first, last;  // those that are not known
    UOp begin = n.dim_or(1, i, [&](const Tensor& v) { return first = v, idx(0); }), end = n.dim_or(2, i, [&](const Tensor& v) { return last = v, idx(0); });
    if (!first && !last) {
      x = x.slice(axis, begin, end, step);
      continue;
    }
    constexpr i64 most = i64(1) << 48;
    auto number = [&](const Tensor& v, UOp known) {
      Tensor r = v ? v : Tensor::integer(Kind::I64, 0).like(known.is_const() ? idx(std::clamp(known.as_int(), -most, most)) : known);
      Tensor m = r.like(x.dim(axis)), top = step > 0 ? m : m - 1.0;
      return where(r.lt(r.like(0)), r + m, r).clip(r.like(step > 0 ? 0 : -1), top);
    };
    Tensor b = number(first, begin), e = number(last, end), length = step > 0 ? e - b : b - e, by = b.like(f64(std::abs(step)));
    Tensor many = (length + (by - 1.0)).floor_div(by);
    UOp size = n.measured(many.max(many.like(0)), size_bounds(x.dim(axis)).hi, 0, axis);
    bool from_start = !first && begin.is_const(0) && step == 1;
    x = from_start ? Tensor(tensor::slice(x.uop(), size_t(axis), idx(0), size)) : x.take(axis, b + Tensor::arange(size) * f64(step));
  }
  return x;
}
Tensor slice_10(OnnxNode& n) {
  for (size_t i : {1, 2, 3, 4})
    if (auto d = n.declared(0, i)) return slice_at_run_time(n, *d);
  if (!n.has_dims(1) || !n.has_dims(2)) return slice_counted(n);
  Shape starts = n.dims(1);
  return slice_of(n, starts, n.dims(2), n.has(3) ? n.ints(3) : first_axes(starts.size()), n.has(4) ? n.ints(4) : Ints(starts.size(), 1));
}

PadMode pad_mode(OnnxNode& n) {
  std::string mode = n.attr("mode", "constant");
  for (auto [text, m] :
       {std::pair("constant", PadMode::Constant), {"reflect", PadMode::Reflect}, {"edge", PadMode::Edge}, {"wrap", PadMode::Wrap}})
    if (mode == text) return m;
  n.fail("mode \"", mode, "\"; known: constant, reflect, edge, wrap");
}

Tensor pad_of(OnnxNode& n, const Tensor& x, const Shape& pads, const Ints& axes, UOp value) {
  n.require(pads.size() == axes.size() * 2, pads.size(), " pads for ", axes.size(), " axes");
  (void)x.axes(axes);
  Shape begin(size_t(x.rank()), idx(0)), end = begin;
  for (size_t i = 0; i < axes.size(); i++) begin[x.axis(axes[i])] = pads[i], end[x.axis(axes[i])] = pads[axes.size() + i];
  return x.pad(begin, end, pad_mode(n), value);
}
Tensor pad_2(OnnxNode& n) {
  Ints pads = n.attr_ints("pads");
  return pad_of(n, n[0], dims(IntSpan(pads)), n[0].all_axes(), n[0].like(n.attr("value", 0.0f)).uop());
}
// Of pads known only at run time: element i of an axis is x's at i - begin.
Tensor pad_at_run_time(OnnxNode& n, const Ints& out) {
  Tensor x = n[0], pads = n[1].cast(Kind::I64);
  PadMode mode = pad_mode(n);
  n.require(i64(out.size()) == x.rank(), "the declared result has rank ", out.size(), ", the input ", x.rank());
  i64 count = pads.size(0) / 2;
  Tensor begins = pads.shrink(0, 0, count), axes = n.has(3) ? n[3].cast(Kind::I64) : Tensor::arange(count);
  axes = where(axes.lt(axes.like(0)), axes + f64(x.rank()), axes);
  std::vector<Tensor> all, lengths;
  Tensor inside = Tensor::full(Shape(x.rank(), idx(1)), Kind::Bool, 1);
  for (i64 a = 0; a < x.rank(); a++) {
    Tensor begin = where(axes.eq(axes.like(f64(a))), begins, begins.like(0)).sum(Ints{0});
    UOp m = x.dim(a);
    Tensor end = where(axes.eq(axes.like(f64(a))), pads.shrink(0, count, count), begins.like(0)).sum(Ints{0});
    lengths.push_back(begin + end + begin.like(m));
    Shape s(x.rank(), idx(1));
    s[a] = idx(out[a]);
    Tensor i = (Tensor::arange(out[a]) - begin).reshape(s);
    if (mode == PadMode::Constant) inside = inside & i.ge(i.like(0)) & i.lt(i.like(m));
    all.push_back(padding_index(i, m, mode));
  }
  n.must_have(sizes::list(lengths), out);
  Tensor y = x.gather(all);
  if (mode != PadMode::Constant) return y;
  return where(inside, y, n.has(2) ? n[2].reshape(Shape{}) : x.like(0));
}
Tensor pad_11(OnnxNode& n) {
  Tensor x = n[0];
  if (auto d = n.declared(0, 1)) return pad_at_run_time(n, *d);
  Shape pads = n.dims(1);
  Ints axes = n.has(3) ? n.ints(3) : x.all_axes();
  if (!n.has(2) || n.attr("mode", "constant") != "constant") return pad_of(n, x, pads, axes, konst(x.dtype(), 0));
  n.require(n[2].numel() == 1 && n[2].dtype() == x.dtype(), "the value must be one number of the input's dtype");
  if (n.is_constant(2)) return pad_of(n, x, pads, axes, konst_bits(x.dtype(), n.constant(2).v[0]));
  // A value known only at run time is put where a mask says that there is padding.
  Tensor inside = pad_of(n, Tensor::full(x.shape(), Kind::Bool, 1), pads, axes, konst(Kind::Bool, 0));
  return where(inside, pad_of(n, x, pads, axes, konst(x.dtype(), 0)), n[2].reshape(Shape{}));
}

Tensor tile(OnnxNode& n) {
  Tensor x = n[0];
  Shape r;
  if (auto d = n.declared(0, 1)) {
    n.must_have(n[1].cast(Kind::I64) * sizes::of(x.shape()), *d);
    for (i64 a = 0; a < x.rank() && a < i64(d->size()); a++) r.push_back(idx(x.size(a) ? (*d)[a] / x.size(a) : 1));
  } else {
    r = n.dims(1);
  }
  n.require(i64(r.size()) == x.rank(), r.size(), " repeats for rank ", x.rank());
  for (i64 a = 0; a < x.rank(); a++)
    if (!r[size_t(a)].is_const(1)) x = x.repeat(a, r[size_t(a)]);
  return x;
}

Tensor shape_op(OnnxNode& n) {
  const Shape& s = n[0].shape();
  i64 r = i64(s.size());
  auto at = [&](i64 v) { return std::clamp<i64>(v < 0 ? v + r : v, 0, r); };
  i64 b = at(n.attr("start", 0)), e = at(n.attr("end", r));
  return Tensor::sizes_as_ints(Shape(s.begin() + b, s.begin() + std::max(b, e)));
}

Tensor constant(OnnxNode& n) {
  if (n.has_attr("value")) return n.attr_tensor("value");
  if (n.has_attr("value_float")) return Tensor::scalar(Kind::F32, n.attr("value_float", 0.0f));
  if (n.has_attr("value_int")) return Tensor::integer(Kind::I64, n.attr("value_int", i64(0)));
  if (n.has_attr("value_ints")) return Tensor::ints(n.attr_ints("value_ints"));
  if (n.has_attr("value_floats")) {
    std::vector<f32> v = n.attr_floats("value_floats");
    return Tensor::of(Kind::F32, Ints{i64(v.size())}, std::vector<f64>(v.begin(), v.end()));
  }
  for (const char* a : {"value_string", "value_strings"})
    if (n.has_attr(a)) n.fail("strings are not supported");
  if (n.has_attr("sparse_value")) n.fail("sparse tensors are not supported");
  n.fail("attribute value is missing");
}

Tensor constant_of_shape(OnnxNode& n) {
  auto declared = n.declared(0, 0);
  Shape s;
  if (declared) {
    n.must_have(n[0], *declared);
    s = dims(IntSpan(*declared));
  } else {
    n.require(n[0].rank() == 1 && n[0].dim(0).is_const(), "the shape must be a list of fixed length");
    for (i64 i = 0; i < n[0].size(0); i++) s.push_back(n.dim_or(0, i, [&](const Tensor& v) { return n.measured(v, std::nullopt, 0, i); }));
  }
  for (UOp d : s) n.require(size_bounds(d).lo >= 0, "a dimension of ", d.str());
  UOp c = konst(Kind::F32, 0);
  if (n.has_attr("value")) {
    c = splat(n.attr_tensor("value").uop());
    n.require(bool(c), "value must be one number");
  }
  return Tensor::full(s, c);
}

Tensor range(OnnxNode& n) {
  Tensor start = n[0].reshape(Shape{}), delta = n[2].reshape(Shape{});
  DType d = start.dtype();
  auto counted = [&] {
    Tensor span = start - n[1].reshape(Shape{});  // towards start: -floor(-x) is ceil(x)
    Tensor count = is_float(d) ? (span.widen() / delta.widen()).floor() : span.floor_div(delta);
    return count.neg().max(count.like(0)).cast(Kind::I64);
  };
  for (size_t i : {0, 1, 2})
    if (auto s = n.declared(0, i)) {
      n.require(s->size() == 1, "the declared result has rank ", s->size());
      n.must_have(counted().reshape(Ints{1}), *s);
      return start + Tensor::arange((*s)[0]).cast(d) * delta;
    }
  // Of whole numbers that are made of free sizes.
  const std::vector<UOp>* of[3];
  for (size_t i = 0; i < 3; i++) of[i] = size_list(n[i].uop());
  if (of[0] && of[1] && of[2] && (*of[2])[0].is_const() && !(n.is_constant(0) && n.is_constant(1))) {
    UOp a = (*of[0])[0], b = (*of[1])[0];
    i64 s = (*of[2])[0].as_int();
    n.require(s != 0, "a delta of 0");
    UOp span = s > 0 ? b - a : a - b, step = idx(s > 0 ? s : -s);
    Tensor i = Tensor::arange(normal_dim(max((span + (step - 1)) / step, idx(0))), is_float(d) ? DType(Kind::I64) : d);
    return start + i.cast(d) * delta;
  }
  if (!(n.is_constant(0) && n.is_constant(1) && n.is_constant(2))) {
    UOp size = n.measured(counted(), std::nullopt);
    return start + Tensor::arange(size).cast(d) * delta;
  }
  i64 count;
  if (is_float(d)) {
    f64 a = n.number(0), b = n.number(1), s = n.number(2);
    n.require(s != 0, "a delta of 0");
    f64 c = std::ceil((b - a) / s);
    n.require(c < 9e15, "a range of ", c, " elements");
    count = i64(std::max(0.0, c));
  } else {
    i64 a = n.integer(0), b = n.integer(1), s = n.integer(2);
    n.require(s != 0, "a delta of 0");
    __int128 span = s > 0 ? __int128(b) - a : __int128(a) - b, step = s > 0 ? s : -__int128(s);
    count = span <= 0 ? 0 : i64((span + step - 1) / step);
  }
  if (!count) return Tensor::full(Shape{idx(0)}, start.like(0).uop());
  Tensor i = Tensor::arange(count, is_float(d) ? DType(Kind::I64) : d);
  return start + i.cast(d) * delta;
}

Tensor eye_like(OnnxNode& n) {
  Tensor x = n[0];
  n.require(x.rank() == 2, "input ", shape_text(x.shape()), " is no matrix");
  Tensor row = Tensor::arange(x.dim(0)).unsqueeze(1), column = Tensor::arange(x.dim(1));
  return column.eq(row + f64(n.attr("k", 0))).cast(n.attr_dtype("dtype", x.dtype()));
}

Tensor trilu(OnnxNode& n) {
  Tensor x = n[0];
  n.require(x.rank() >= 2, "input ", shape_text(x.shape()), " has no matrices");
  Tensor row = Tensor::arange(x.dim(-2)).unsqueeze(1), column = Tensor::arange(x.dim(-1));
  // Beyond the matrix k makes no difference, and must not wrap.
  Tensor diagonal = row;
  if (n.has(1)) {
    Tensor k = n[1].cast(Kind::I64).reshape(Shape{});
    diagonal = row + k.clip(k.like(-1e15), k.like(1e15));
  }
  return where(n.attr("upper", 1) ? column.ge(diagonal) : column.le(diagonal), x, x.like(0));
}

Tensor depth_to_space(OnnxNode& n) {
  Tensor x = n[0];
  i64 b = n.attr_int("blocksize");
  n.require(x.rank() == 4 && b > 0 && x.size(1) % (b * b) == 0, "input ", shape_text(x.shape()), " with blocksize ", b);
  UOp N = x.dim(0), c = idx(x.size(1) / (b * b)), h = x.dim(2), w = x.dim(3), bb = idx(b);
  std::string mode = n.attr("mode", "DCR");
  n.require(mode == "DCR" || mode == "CRD", "mode must be DCR or CRD, not ", mode);
  Tensor y = mode == "DCR" ? x.reshape(Shape{N, bb, bb, c, h, w}).permute(Ints{0, 3, 4, 1, 5, 2})
                           : x.reshape(Shape{N, c, bb, bb, h, w}).permute(Ints{0, 1, 4, 2, 5, 3});
  return y.reshape(Shape{N, c, h * b, w * b});
}
Tensor space_to_depth(OnnxNode& n) {
  Tensor x = n[0];
  i64 b = n.attr_int("blocksize");
  n.require(x.rank() == 4 && b > 0, "input ", shape_text(x.shape()), " with blocksize ", b);
  auto h = whole_quotient(x.dim(2), idx(b)), w = whole_quotient(x.dim(3), idx(b));
  n.require(h && w, "input ", shape_text(x.shape()), " does not divide into blocks of ", b);
  UOp N = x.dim(0), c = x.dim(1), bb = idx(b);
  return x.reshape(Shape{N, c, *h, bb, *w, bb}).permute(Ints{0, 3, 5, 1, 2, 4}).reshape(Shape{N, c * (b * b), *h, *w});
}

Tensor reverse_sequence(OnnxNode& n) {
  Tensor x = n[0], len = n[1];
  i64 batch = x.axis(n.attr("batch_axis", 1)), time = x.axis(n.attr("time_axis", 0));
  n.require(x.rank() >= 2 && batch != time && len.rank() == 1, "input ", shape_text(x.shape()), ", lengths ", shape_text(len.shape()));
  Shape ts(x.rank(), idx(1)), bs(x.rank(), idx(1));
  ts[time] = x.dim(time), bs[batch] = x.dim(batch);
  Tensor t = Tensor::arange(x.dim(time)).reshape(ts), l = len.cast(Kind::I64).reshape(bs);
  return x.take_along(time, where(t.lt(l), l - 1.0 - t, t).expand(x.shape()));
}

// clang-format off
constexpr OnnxOp kMovementOps[] = {
  {"Concat",          4, concat},
  {"Constant",        1, constant},
  {"ConstantOfShape", 9, constant_of_shape},
  {"DepthToSpace",    1, depth_to_space},
  {"Expand",          8, expand},
  {"EyeLike",         9, eye_like},
  {"Flatten",         1, flatten},
  {"Identity",        1, [](OnnxNode& n) { return n.any(0); }},
  {"Pad",             2, pad_2},       // pads and value are attributes
  {"Pad",            11, pad_11},
  {"Range",          11, range},
  {"Reshape",         5, reshape},
  {"ReverseSequence",10, reverse_sequence},
  {"Shape",           1, shape_op},
  {"Size",            1, [](OnnxNode& n) { return Tensor::integer(Kind::I64, 0).like(elems(n[0].shape())); }},
  {"Slice",           1, slice_1},     // starts, ends and axes are attributes
  {"Slice",          10, slice_10},
  {"SpaceToDepth",    1, space_to_depth},
  {"Split",           2, split},
  {"Squeeze",         1, squeeze<true>},
  {"Squeeze",        13, squeeze<false>},
  {"Tile",            6, tile},
  {"Transpose",       1, transpose},
  {"Trilu",          14, trilu},
  {"Unsqueeze",       1, unsqueeze<true>},
  {"Unsqueeze",      13, unsqueeze<false>},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> movement_ops() { return kMovementOps; }

}  // namespace tg
