// Reading and writing by index, sorting, one-hot, einsum. https://onnx.ai/onnx/operators/
#include <algorithm>

#include "frontend/declared.h"
#include "frontend/onnx_op.h"

namespace tg {
namespace {

Tensor iota_along(const Shape& s, i64 axis) {
  Shape r(s.size(), idx(1));
  r[axis] = s[axis];
  return Tensor::arange(s[axis]).reshape(r);
}

// out[b, p] = x[b, index[b, p, :], ...]: the last axis of index holds coordinates of the axes after the batch.
Tensor gather_nd(OnnxNode& n) {
  Tensor x = n[0], index = n[1];
  i64 batch = n.attr("batch_dims", 0), k = index.rank() ? index.size(-1) : 0;
  n.require(index.rank() >= 1 && x.rank() >= 1 && batch >= 0 && batch < std::min(x.rank(), index.rank()) && k >= 1 && batch + k <= x.rank(),
            "data ", shape_text(x.shape()), ", indices ", shape_text(index.shape()), ", batch_dims ", batch);
  for (i64 a = 0; a < batch; a++)
    n.require(x.dim(a) == index.dim(a), "batch axis ", a, " is ", shape_text({x.dim(a)}), " in data and ", shape_text({index.dim(a)}),
              " in indices");
  Shape p(index.shape().begin(), index.shape().end() - 1);
  std::vector<Tensor> all(x.rank());
  for (i64 a = 0; a < batch; a++) all[a] = iota_along(p, a);
  for (i64 a = 0; a < k; a++) all[batch + a] = index.shrink(-1, a, 1).squeeze(-1);
  return x.gather(all);
}

ScatterKind scatter_kind(OnnxNode& n) {
  std::string r = n.attr("reduction", "none");
  for (auto [text, k] : {std::pair("none", ScatterKind::Set),
                         {"add", ScatterKind::Add},
                         {"mul", ScatterKind::Mul},
                         {"max", ScatterKind::Max},
                         {"min", ScatterKind::Min}})
    if (r == text) return k;
  n.fail("reduction \"", r, "\"; known: none, add, mul, max, min");
}

Tensor scatter_elements(OnnxNode& n) {
  Tensor x = n[0], index = n[1], updates = n[2];
  i64 axis = x.axis(n.attr("axis", 0));
  n.require(index.rank() == x.rank() && same_shape(index.shape(), updates.shape()), "data ", shape_text(x.shape()), ", indices ",
            shape_text(index.shape()), ", updates ", shape_text(updates.shape()));
  std::vector<Tensor> all;
  for (i64 a = 0; a < x.rank(); a++) {
    n.require(a == axis || always_le(index.dim(a), x.dim(a)), "indices ", shape_text(index.shape()), " reach outside ", shape_text(x.shape()));
    all.push_back(a == axis ? index : iota_along(index.shape(), a));
  }
  return x.scatter(all, updates, scatter_kind(n));
}

Tensor scatter_nd(OnnxNode& n) {
  Tensor x = n[0], index = n[1], updates = n[2];
  i64 k = index.rank() ? index.size(-1) : 0, q = index.rank() - 1;
  n.require(index.rank() >= 1 && k >= 1 && k <= x.rank() && updates.rank() == q + x.rank() - k, "data ", shape_text(x.shape()),
            ", indices ", shape_text(index.shape()), ", updates ", shape_text(updates.shape()));
  std::vector<Tensor> all;
  for (i64 a = 0; a < x.rank(); a++) {
    if (a >= k) {
      n.require(updates.dim(q + a - k) == x.dim(a), "updates ", shape_text(updates.shape()), " for data ", shape_text(x.shape()));
      all.push_back(iota_along(updates.shape(), q + a - k));
      continue;
    }
    Shape s(index.shape().begin(), index.shape().end() - 1);
    s.insert(s.end(), x.rank() - k, idx(1));
    all.push_back(index.shrink(-1, a, 1).reshape(s));
  }
  return x.scatter(all, updates, scatter_kind(n));
}

// Writes update (B, D.., n, E..) into past (B, D.., m, E..) along an axis from write_indices[b] on.
Tensor tensor_scatter(OnnxNode& n) {
  Tensor past = n[0], update = n[1];
  i64 axis = past.axis(n.attr("axis", -2));
  std::string mode = n.attr("mode", "linear");
  n.require(mode == "linear" || mode == "circular", "mode must be linear or circular, not ", mode);
  n.require(axis > 0 && update.rank() == past.rank(), "data ", shape_text(past.shape()), ", update ", shape_text(update.shape()), ", axis ",
            axis);
  Tensor at = iota_along(update.shape(), axis);
  if (n.has(2)) {
    Shape s(past.rank(), idx(1));
    s[0] = past.dim(0);
    at = at + n[2].cast(Kind::I64).reshape(s);
  }
  if (mode == "circular") at = at.floor_mod(at.like(past.dim(axis)));
  std::vector<Tensor> all;
  for (i64 a = 0; a < past.rank(); a++) all.push_back(a == axis ? at : iota_along(update.shape(), a));
  return past.scatter(all, update, ScatterKind::Set);
}

Tensors top_k(OnnxNode& n) {
  Tensor x = n[0];
  i64 axis = x.axis(n.attr("axis", -1));
  UOp k;
  if (auto d = n.declared(0, 1)) {
    n.require(i64(d->size()) == x.rank(), "the declared result has rank ", d->size());
    n.must_have(sizes::with(sizes::of(x.shape()), axis, n[1]), *d);
    k = idx((*d)[axis]);
  } else {
    UOp most = x.dim(axis);
    auto counted = [&](const Tensor& v) {
      n.must_be(v.le(v.like(most)), true, str("k is no more than the ", most.str(), " elements of the axis"));
      return n.measured(v, size_bounds(most).hi, 0, axis);
    };
    k = n.opset() < 10 ? idx(n.attr_int("k")) : n.dim_or(1, 0, counted);
  }
  bool at_run_time = n.opset() >= 10 && !n.has_dims(1);
  n.require(size_bounds(k).lo >= 0 && (at_run_time || always_le(k, x.dim(axis))), "k is ", k.str(), " of an axis of ", x.dim(axis).str(),
            k.is_const() && x.dim(axis).is_const() ? "" : ", which is less for some sizes");
  Tensor order = tensor::slice(x.sort_order(axis, n.attr("largest", 1) != 0).uop(), size_t(axis), idx(0), k);
  return {x.take_along(axis, order), order};
}

Tensor one_hot(OnnxNode& n) {
  auto declared = n.declared(0, 1);
  i64 place = n.attr("axis", -1);
  UOp depth = declared && !declared->empty() ? idx(declared->at(size_t(place < 0 ? place + i64(declared->size()) : place)))
              : n.has_dims(1)                ? n.dim(1)
                                             : idx(i64(n.number(1)));
  Tensor index = n[0], values = n[2];
  n.require(size_bounds(depth).lo > 0, "a depth of ", depth.str());
  n.require(values.rank() == 1 && values.size(0) == 2, "values ", shape_text(values.shape()), " are not two");
  i64 r = index.rank() + 1, axis = n.attr("axis", -1);
  n.require(axis >= -r && axis < r, "axis ", axis, " for a result of rank ", r);
  if (axis < 0) axis += r;
  if (declared && !declared->empty()) {
    Shape wanted = index.shape();
    wanted.insert(wanted.begin() + axis, idx(0));
    n.must_have(sizes::with(sizes::of(wanted), axis, n[1]), *declared);
  }
  Tensor i = index.cast(Kind::I64);
  i = where(i.lt(i.like(0)), i + i.like(depth), i).unsqueeze(axis);  // out of range: no element is on
  Shape s(r, idx(1));
  s[axis] = depth;
  Tensor on = values.shrink(0, 1, 1).reshape(Shape{}), off = values.shrink(0, 0, 1).reshape(Shape{});
  return where(i.eq(Tensor::arange(depth).reshape(s)), on, off);
}

// Where a list of bools is true, in order: as many as the run counts. Each true one writes its position to the place that a running sum gives it,
// the others to a place behind all.
Tensor true_positions(OnnxNode& n, const Tensor& mask, i64 axis) {
  UOp all = mask.dim(0);
  Tensor ones = mask.cast(Kind::I64), to = where(mask, ones.cumsum(0) - 1.0, ones.like(all));
  std::vector<Tensor> at{to};
  Tensor placed = Tensor::full(Shape{normal_dim(all + 1)}, Kind::I64, 0).scatter(at, Tensor::arange(all), ScatterKind::Set);
  UOp size = n.measured(ones.sum(Ints{0}), size_bounds(all).hi, 0, axis);
  return tensor::slice(placed.uop(), 0, idx(0), size);
}

Tensor compress(OnnxNode& n) {
  Tensor x = n[0], c = n[1];
  if (!n.has_attr("axis")) x = x.flatten();
  i64 axis = x.axis(n.attr("axis", 0));
  n.require(c.rank() == 1 && c.dtype() == DType(Kind::Bool), "the condition must be a list of bools");
  n.require(always_le(c.dim(0), x.dim(axis)), "a condition of ", c.dim(0).str(), " for an axis of ", x.dim(axis).str());
  if (!n.is_constant(1)) return x.take(axis, true_positions(n, c, axis));
  Ints keep, values = n.ints(1);
  for (size_t i = 0; i < values.size(); i++)
    if (values[i]) keep.push_back(i64(i));
  return x.take(axis, Tensor::ints(keep));
}

Tensor non_zero(OnnxNode& n) {
  Tensor x = n[0];
  if (x.rank() == 0) x = x.reshape(Ints{1});
  if (!n.is_constant(0)) {
    Tensor flat = x.flatten(), at = true_positions(n, flat.ne(flat.like(0)), 1);
    std::vector<Tensor> rows;
    for (i64 a = x.rank(); a-- > 0;) {
      Tensor size = at.like(x.dim(a));
      rows.insert(rows.begin(), (a ? at.floor_mod(size) : at).unsqueeze(0));
      if (a) at = at.floor_div(size);
    }
    return Tensor::concat(rows, 0);
  }
  const Values& v = n.constant(0);
  i64 r = x.rank();
  Ints dims = x.sizes();
  std::vector<Ints> at(r);
  i64 count = 0;
  for (i64 i = 0; i < v.elems(); i++) {
    if (v.number(i) == 0) continue;
    count++;
    for (i64 a = r, rest = i; a-- > 0; rest /= dims[a]) at[a].push_back(rest % dims[a]);
  }
  Ints all;
  for (const Ints& a : at) all.insert(all.end(), a.begin(), a.end());
  return Tensor::of_ints(Kind::I64, Ints{r, count}, all);
}

// --- Einsum
// -------------------------------------------------------------------------------------------------------------------------------
struct Term {
  Tensor x;
  std::string labels;  // one an axis; the axes of an ellipsis are '0', '1' .. from the right
};

// x with a repeated label's axes reduced to their diagonal.
Term diagonal(OnnxNode& n, Term t) {
  for (size_t i = 0; i < t.labels.size(); i++)
    for (size_t j = i + 1; j < t.labels.size(); j++) {
      if (t.labels[i] != t.labels[j]) continue;
      n.require(t.x.dim(i) == t.x.dim(j), "label ", t.labels[i], " has sizes ", shape_text({t.x.dim(i), t.x.dim(j)}));
      Ints order;  // (i, j, rest..)
      for (i64 a = 0; a < t.x.rank(); a++)
        if (a != i64(i) && a != i64(j)) order.push_back(a);
      order.insert(order.begin(), {i64(i), i64(j)});
      std::string labels;
      for (size_t a = 1; a < order.size(); a++) labels += t.labels[order[a]];
      std::vector<Tensor> all(t.x.rank());
      all[0] = all[1] = Tensor::arange(t.x.dim(i));
      t = {t.x.permute(order).gather(all), labels};
      return diagonal(n, t);
    }
  return t;
}

// x over the axes `labels`, size 1 where it has none.
Tensor spread(const Term& t, const std::string& labels) {
  Ints order;
  Shape s;
  for (char c : labels) {
    size_t i = t.labels.find(c);
    s.push_back(i == std::string::npos ? idx(1) : t.x.dim(i64(i)));
    if (i != std::string::npos) order.push_back(i64(i));
  }
  return t.x.permute(order).reshape(s);
}

Term sum_unless(const Term& t, const std::string& kept) {
  Ints axes;
  std::string labels;
  for (size_t i = 0; i < t.labels.size(); i++)
    if (kept.find(t.labels[i]) == std::string::npos)
      axes.push_back(i64(i));
    else
      labels += t.labels[i];
  return {t.x.sum(axes), labels};
}

Tensor einsum(OnnxNode& n) {
  std::string eq = n.attr_string("equation");
  std::erase(eq, ' ');
  size_t arrow = eq.find("->");
  std::string left = eq.substr(0, arrow), out = arrow == std::string::npos ? "" : eq.substr(arrow + 2);
  std::vector<std::string> names(1);
  for (char c : left)
    if (c == ',')
      names.emplace_back();
    else
      names.back() += c;
  n.require(names.size() == n.inputs(), "equation ", eq, " has ", names.size(), " terms for ", n.inputs(), " inputs");
  std::vector<Term> terms;
  std::string dots;
  for (size_t i = 0; i < names.size(); i++) {
    std::string& s = names[i];
    Tensor x = n[i].widen();
    if (size_t d = s.find("..."); d != std::string::npos) {
      i64 k = x.rank() - i64(s.size()) + 3;
      n.require(k >= 0 && k <= 10, "term ", s, " for input ", shape_text(x.shape()));
      std::string digits;
      for (i64 j = k; j-- > 0;) digits += char('0' + j);
      if (digits.size() > dots.size()) dots = digits;
      s.replace(d, 3, digits);
    }
    n.require(i64(s.size()) == x.rank(), "term ", s, " for input ", shape_text(x.shape()));
    for (char c : s) n.require(std::isalnum(u8(c)), "'", c, "' in equation ", eq);
    terms.push_back(diagonal(n, {x, s}));
  }
  if (arrow == std::string::npos) {  // labels that stand once, in alphabetical order
    std::string all;
    for (const std::string& s : names) all += s;
    std::string single;
    for (char c : all)
      if (std::isalpha(u8(c)) && std::count(all.begin(), all.end(), c) == 1) single += c;
    std::sort(single.begin(), single.end());
    out = dots + single;
  } else if (size_t d = out.find("..."); d != std::string::npos) {
    out.replace(d, 3, dots);
  }
  for (size_t i = 0; i < out.size(); i++) {
    bool known = std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return t.labels.find(out[i]) != std::string::npos; });
    n.require(known && out.find(out[i], i + 1) == std::string::npos, "label '", out[i], "' of the result in equation ", eq);
  }
  // A broadcast dim of 1 of an ellipsis is not summed before it has met its partner: labels are kept while a later term or the result has
  // them.
  auto later = [&](size_t from) {
    std::string s = out;
    for (size_t i = from; i < terms.size(); i++) s += terms[i].labels;
    return s;
  };
  Term acc = sum_unless(terms[0], later(1));
  for (size_t i = 1; i < terms.size(); i++) {
    std::string kept = later(i + 1);
    Term t = sum_unless(terms[i], acc.labels + kept);
    // Result labels first, in their order; then what is summed.
    std::string labels;
    for (char c : out + acc.labels + t.labels)
      if ((acc.labels + t.labels).find(c) != std::string::npos && labels.find(c) == std::string::npos) labels += c;
    acc = sum_unless({spread(acc, labels) * spread(t, labels), labels}, kept);
  }
  return spread(acc, out).cast(n[0].dtype());
}


// clang-format off
constexpr OnnxOp kIndexOps[] = {
  {"Compress",          9, compress},
  {"Einsum",           12, einsum},
  {"Gather",            1, [](OnnxNode& n) { return n[0].take(n.attr("axis", 0), n[1]); }},
  {"GatherElements",   11, [](OnnxNode& n) { return n[0].take_along(n.attr("axis", 0), n[1]); }},
  {"GatherND",         11, gather_nd},
  {"NonZero",           9, non_zero},
  {"OneHot",            9, one_hot},
  {"Scatter",           9, scatter_elements},
  {"ScatterElements",  11, scatter_elements},
  {"ScatterND",        11, scatter_nd},
  {"TensorScatter",    24, tensor_scatter},
  {"TopK",              1, top_k},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> index_ops() { return kIndexOps; }

}  // namespace tg
