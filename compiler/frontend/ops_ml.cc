// ai.onnx.ml: scalers, encoders of numbers, linear models, support vector machines, tree ensembles. Strings are refused. Where the
// specification is silent (scores of binary classifiers), onnxruntime's meaning. https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <set>

#include "frontend/onnx_op.h"
#include "frontend/pool.h"
#include "frontend/trees.h"

namespace tg {
namespace {

std::vector<f64> doubles(const std::vector<f32>& v) { return {v.begin(), v.end()}; }
Tensor row(DType d, const std::vector<f64>& v) { return Tensor::of(d, Ints{i64(v.size())}, v); }
Tensor as_float(const Tensor& x) { return x.dtype().kind == Kind::F64 ? x : x.cast(Kind::F32); }
// Rows of features; a vector is one row.
Tensor as_rows(OnnxNode& n, const Tensor& x) {
  n.require((x.rank() == 1 || x.rank() == 2) && x.size(-1) > 0, "input ", shape_text(x.shape()), " must be (rows, features)");
  return x.rank() == 1 ? x.unsqueeze(0) : x;
}

Tensor array_feature_extractor(OnnxNode& n) {
  Tensor x = n[0], index = n[1].flatten();
  Tensor y = x.take(-1, index);
  return x.rank() == 1 ? y.unsqueeze(0) : y;
}

Tensor binarizer(OnnxNode& n) {
  Tensor x = n[0], t = Tensor::scalar(Kind::F32, n.attr("threshold", 0.0f)).cast(x.dtype());
  return x.gt(t).cast(x.dtype());
}

Tensor imputer(OnnxNode& n) {
  Tensor x = n[0], values, hit;
  n.require(x.rank() == 2, "input ", shape_text(x.shape()), " must be (rows, features)");
  if (x.is_float()) {
    values = row(x.dtype(), doubles(n.attr_floats("imputed_value_floats")));
    f32 replaced = n.attr("replaced_value_float", 0.0f);
    hit = std::isnan(replaced) ? x.is_nan() : x.eq(x.like(replaced));
  } else {
    values = Tensor::of_ints(x.dtype(), Ints{i64(n.attr("imputed_value_int64s", Ints{}).size())}, n.attr("imputed_value_int64s", Ints{}));
    hit = x.eq(Tensor::integer(x.dtype(), n.attr("replaced_value_int64", 0)));
  }
  n.require(values.dim(0).is_const(1) || values.dim(0) == x.dim(1), "imputed values ", shape_text(values.shape()), " for input ",
            shape_text(x.shape()));
  return where(hit, values, x);
}

Tensor feature_vectorizer(OnnxNode& n) {
  Ints widths = n.attr_ints("inputdimensions");
  n.require(widths.size() == n.inputs(), widths.size(), " inputdimensions for ", n.inputs(), " inputs");
  std::vector<Tensor> parts;
  for (size_t i = 0; i < n.inputs(); i++) {
    Tensor x = n[i].rank() == 1 ? n[i].unsqueeze(1) : n[i];
    n.require(x.rank() == 2, "input ", i, " has shape ", shape_text(n[i].shape()));
    parts.push_back(x.cast(Kind::F32).pad(Ints{0, 0}, Ints{0, widths[i] - x.size(1)}));
  }
  return Tensor::concat(parts, 1);
}

// keys and values are lists or tensors of numbers; a key of NaN finds NaN.
Tensor label_encoder(OnnxNode& n) {
  for (const char* s : {"keys_strings", "values_strings"}) n.require(!n.has_attr(s), s, ": strings are not supported");
  Tensor x = n[0];
  auto list = [&](const char* tensor, const char* floats, const char* ints) -> Tensor {
    if (n.has_attr(tensor)) return n.attr_tensor(tensor).flatten();
    if (n.has_attr(floats)) return row(Kind::F32, doubles(n.attr_floats(floats)));
    return Tensor::ints(n.attr_ints(ints));
  };
  Tensor keys = list("keys_tensor", "keys_floats", "keys_int64s"), values = list("values_tensor", "values_floats", "values_int64s");
  n.require(keys.dim(0) == values.dim(0), "keys ", shape_text(keys.shape()), " and values ", shape_text(values.shape()));
  n.require(keys.dtype() == x.dtype(), "keys are ", name(keys.dtype()), ", the input is ", name(x.dtype()));
  Tensor other = n.has_attr("default_tensor")       ? n.attr_tensor("default_tensor").reshape(Shape{})
                 : values.dtype().kind == Kind::I64 ? Tensor::integer(Kind::I64, n.attr("default_int64", -1))
                                                    : Tensor::scalar(Kind::F32, n.attr("default_float", -0.0f)).cast(values.dtype());
  i64 count = keys.size(0);
  if (count == 0) return other.expand(x.shape());
  Tensor v = x.unsqueeze(-1), hit = v.eq(keys);
  if (x.is_float()) hit = hit | (v.is_nan() & keys.is_nan());
  // The last of equal keys counts, as in a dictionary.
  Tensor at = where(hit, Tensor::arange(count), Tensor::integer(Kind::I64, -1)).max(Ints{x.rank()}, false);
  return where(at.lt(at.like(0)), other, values.take(0, at.max(at.like(0))));
}

Tensor one_hot_encoder(OnnxNode& n) {
  n.require(!n.has_attr("cats_strings"), "cats_strings: strings are not supported");
  Ints cats = n.attr_ints("cats_int64s");
  // A category that is not listed gives zeros, also with zeros=0: a compiled model cannot fail on a value.
  return n[0].cast(Kind::I64).unsqueeze(-1).eq(Tensor::ints(cats)).cast(Kind::F32);
}

Tensor normalizer(OnnxNode& n) {
  Tensor x = as_float(n[0]);
  std::string norm = n.attr("norm", "MAX");
  Ints last{x.rank() - 1};
  Tensor d;
  if (norm == "MAX")
    d = x.abs().max(last, true);
  else if (norm == "L1")
    d = x.abs().sum(last, true);
  else if (norm == "L2")
    d = x.square().sum(last, true).sqrt();
  else
    n.fail("norm \"", norm, "\"; known: MAX, L1, L2");
  return (x / d.max(d.like(1e-30))).cast(Kind::F32);
}

Tensor scaler(OnnxNode& n) {
  Tensor x = n[0].cast(n[0].dtype().kind == Kind::F32 ? DType(Kind::F32) : DType(Kind::F64));
  std::vector<f64> offset = doubles(n.attr_floats("offset")), scale = doubles(n.attr_floats("scale"));
  if (offset.empty()) offset = {0};
  if (scale.empty()) scale = {1};
  for (auto* v : {&offset, &scale})
    n.require(v->size() == 1 || i64(v->size()) == x.size(-1), v->size(), " offsets or scales for input ", shape_text(x.shape()));
  return ((x - row(x.dtype(), offset)) * row(x.dtype(), scale)).cast(Kind::F32);
}

// --- scores -----------------------------------------------------------------------------------------------------------------------------
// sqrt(2) * erf_inv(2p - 1) by Winitzki's approximation, which ONNX's reference and onnxruntime use.
Tensor probit(const Tensor& p) {
  Tensor x = p * 2.0 - 1.0, l = ((1.0 - x) * (x + 1.0)).log();
  Tensor v = l * 0.5 + 2 / (std::numbers::pi * 0.147), v2 = l * (1 / 0.147);
  Tensor r = ((v.square() - v2).sqrt() - v).sqrt() * std::numbers::sqrt2;
  return where(x.lt(x.like(0)), -r, r);
}

Tensor post_transform(OnnxNode& n, const Tensor& s) {
  std::string t = n.attr("post_transform", "NONE");
  if (t == "NONE") return s;
  if (t == "LOGISTIC") return s.sigmoid();
  if (t == "SOFTMAX") return s.softmax(1);
  if (t == "PROBIT") return probit(s);
  n.require(t == "SOFTMAX_ZERO", "post_transform \"", t, "\"; known: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT");
  Tensor zero = s.abs().le(s.like(1e-7)), m = s.max(Ints{1}, true);
  Tensor e = where(zero, s * (-m).exp(), (s - m).exp()), total = e.sum(Ints{1}, true);
  return where(total.eq(total.like(0)), total.like(0.5), e / total);
}

// The two scores of a binary classifier that has one, s (N, 1): onnxruntime applies LOGISTIC and no other transform to them. complement:
// without LOGISTIC they add up to 1, else to 0.
Tensor binary_scores(OnnxNode& n, const Tensor& s, bool complement) {
  std::string t = n.attr("post_transform", "NONE");
  n.require(t != "PROBIT", "post_transform PROBIT of a binary classifier is not supported");
  if (t == "LOGISTIC") return Tensor::concat({-s, s}, 1).sigmoid();
  return Tensor::concat({complement ? 1.0 - s : -s, s}, 1);
}

Ints class_labels(OnnxNode& n, const char* ints) {
  n.require(n.attr_strings("classlabels_strings").empty(), "classlabels_strings: labels that are strings are not supported");
  return n.attr(ints, Ints{});
}

Tensors linear_classifier(OnnxNode& n) {
  Tensor x = as_float(as_rows(n, n[0]));
  Ints labels = class_labels(n, "classlabels_ints");
  std::vector<f64> w = doubles(n.attr_floats("coefficients")), b = doubles(n.attr_floats("intercepts"));
  i64 features = x.size(1), classes = i64(w.size()) / features;
  n.require(classes > 0 && i64(w.size()) == classes * features, w.size(), " coefficients for ", features, " features");
  n.require(b.empty() || i64(b.size()) == classes, b.size(), " intercepts for ", classes, " classes");
  Tensor s = x.matmul(Tensor::of(x.dtype(), Ints{classes, features}, w).transpose());
  if (!b.empty()) s = s + row(x.dtype(), b);
  auto label_at = [&](const Tensor& at) { return labels.empty() ? at : Tensor::ints(labels).take(0, at); };
  if (classes == 1) {
    n.require(labels.size() == 2, "one row of coefficients needs two labels, there are ", labels.size());
    Tensor at = s.gt(s.like(0)).squeeze(1).cast(Kind::I64);
    return {label_at(at), binary_scores(n, s, true)};
  }
  n.require(labels.empty() || i64(labels.size()) == classes, labels.size(), " labels for ", classes, " classes");
  return {label_at(s.argmax(1).first), post_transform(n, s)};
}

Tensor linear_regressor(OnnxNode& n) {
  Tensor x = as_float(as_rows(n, n[0]));
  std::vector<f64> w = doubles(n.attr_floats("coefficients")), b = doubles(n.attr_floats("intercepts"));
  i64 targets = n.attr("targets", 1), features = x.size(1);
  n.require(i64(w.size()) == targets * features, w.size(), " coefficients for ", targets, " targets of ", features, " features");
  Tensor y = x.matmul(Tensor::of(x.dtype(), Ints{targets, features}, w).transpose());
  if (!b.empty()) y = y + row(x.dtype(), b);
  return post_transform(n, y).cast(Kind::F32);
}

// Rows of x (N, F) against vectors v (M, F): (N, M).
Tensor kernel(OnnxNode& n, const Tensor& x, const Tensor& v, const std::string& type) {
  std::vector<f64> p = doubles(n.attr_floats("kernel_params"));
  p.resize(3);
  if (type == "RBF") return ((x.unsqueeze(1) - v).square().sum(Ints{2}) * -p[0]).exp();
  Tensor dot = x.matmul(v.transpose());
  if (type == "LINEAR") return dot;
  dot = dot * p[0] + p[1];
  if (type == "SIGMOID") return dot.tanh();
  n.require(type == "POLY", "kernel_type \"", type, "\"; known: LINEAR, POLY, RBF, SIGMOID");
  Tensor y = dot;  // the degree is a small whole number
  n.require(p[2] >= 1 && p[2] <= 64 && p[2] == std::floor(p[2]), "a polynomial kernel of degree ", p[2]);
  for (i64 i = 1; i < i64(p[2]); i++) y = y * dot;
  return y;
}

Tensor svm_regressor(OnnxNode& n) {
  Tensor x = as_float(as_rows(n, n[0]));
  std::vector<f64> w = doubles(n.attr_floats("coefficients")), sv = doubles(n.attr_floats("support_vectors")),
                   rho = doubles(n.attr_floats("rho"));
  i64 count = n.attr("n_supports", 0), features = x.size(1);
  n.require(!rho.empty() && i64(w.size()) == (count ? count : features) && i64(sv.size()) == count * features,
            "coefficients, support_vectors and rho do not fit ", count, " vectors of ", features, " features");
  Tensor k = count ? kernel(n, x, Tensor::of(x.dtype(), Ints{count, features}, sv), n.attr("kernel_type", "LINEAR")) : x;
  Tensor y = (k * row(x.dtype(), w)).sum(Ints{1}, true) + rho[0];
  if (n.attr("one_class", 0)) y = where(y.gt(y.like(0)), y.like(1), y.like(-1));
  return post_transform(n, y).cast(Kind::F32);
}

Tensors svm_classifier(OnnxNode& n) {
  Tensor x = as_float(as_rows(n, n[0]));
  Ints labels = class_labels(n, "classlabels_ints"), per_class = n.attr("vectors_per_class", Ints{});
  std::vector<f64> w = doubles(n.attr_floats("coefficients")), sv = doubles(n.attr_floats("support_vectors")),
                   rho = doubles(n.attr_floats("rho"));
  n.require(!n.has_attr("prob_a") || n.attr_floats("prob_a").empty(),
            "probabilities of a support vector machine (prob_a) are not supported");
  n.require(!labels.empty() && !rho.empty() && !w.empty(), "labels, rho and coefficients must be given");
  i64 classes = i64(labels.size()), features = x.size(1), vectors = 0;
  for (i64 v : per_class) vectors += v;
  Tensor scores, best;
  if (!vectors) {  // linear: a row of coefficients a class
    n.require(i64(w.size()) == classes * features, w.size(), " coefficients for ", classes, " classes of ", features, " features");
    scores = x.matmul(Tensor::of(x.dtype(), Ints{classes, features}, w).transpose()) + rho[0];
    best = scores.argmax(1).first;
  } else {  // one against one; the class with most votes, of equals the first
    n.require(i64(per_class.size()) == classes && i64(sv.size()) == vectors * features && i64(w.size()) == (classes - 1) * vectors &&
                  i64(rho.size()) == classes * (classes - 1) / 2,
              "support_vectors, coefficients and rho do not fit ", vectors, " vectors of ", classes, " classes");
    Tensor k = kernel(n, x, Tensor::of(x.dtype(), Ints{vectors, features}, sv), n.attr("kernel_type", "LINEAR"));
    std::vector<i64> start(classes);
    for (i64 c = 1; c < classes; c++) start[c] = start[c - 1] + per_class[c - 1];
    std::vector<Tensor> pairs, votes(classes);
    auto part = [&](i64 row_at, i64 c) {
      std::vector<f64> p(w.begin() + row_at * vectors + start[c], w.begin() + row_at * vectors + start[c] + per_class[c]);
      return (k.shrink(1, start[c], per_class[c]) * row(x.dtype(), p)).sum(Ints{1}, true);
    };
    for (i64 i = 0, e = 0; i < classes; i++)
      for (i64 j = i + 1; j < classes; j++, e++) {
        Tensor s = part(j - 1, i) + part(i, j) + rho[e], won = s.gt(s.like(0)).cast(Kind::I32), lost = Tensor::scalar(Kind::I32, 1) - won;
        votes[i] = votes[i] ? votes[i] + won : won;
        votes[j] = votes[j] ? votes[j] + lost : lost;
        pairs.push_back(s);
      }
    if (classes == 1)
      pairs.push_back(Tensor::full(Shape{x.dim(0), idx(1)}, x.dtype(), rho[0])),
          votes[0] = Tensor::full(Shape{x.dim(0), idx(1)}, Kind::I32, 1);
    scores = Tensor::concat(pairs, 1);
    best = Tensor::concat(votes, 1).argmax(1).first;
  }
  Tensor label = Tensor::ints(labels).take(0, best);
  if (scores.dim(1).is_const(1)) return {label, binary_scores(n, scores, false).cast(Kind::F32)};
  return {label, post_transform(n, scores).cast(Kind::F32)};
}

// --- trees ------------------------------------------------------------------------------------------------------------------------------
// `name` as floats, or `name`_as_tensor.
std::vector<f64> floats_or_tensor(OnnxNode& n, const std::string& attr) {
  std::string tensor = attr + "_as_tensor";
  if (!n.has_attr(tensor)) return doubles(n.attr_floats(attr));
  const Values* v = Pool::current().value(n.attr_tensor(tensor).uop());
  n.require(v, "attribute ", tensor, " is larger than ", kFoldElems, " elements");
  std::vector<f64> r(v->elems());
  for (i64 i = 0; i < v->elems(); i++) r[i] = v->number(i);
  return r;
}

// The form of TreeEnsembleClassifier and TreeEnsembleRegressor; `what` is "class" or "target".
Trees read_trees(OnnxNode& n, const std::string& what, i64 targets) {
  Ints tree = n.attr_ints("nodes_treeids"), id = n.attr_ints("nodes_nodeids"), feature = n.attr_ints("nodes_featureids");
  Ints yes = n.attr_ints("nodes_truenodeids"), no = n.attr_ints("nodes_falsenodeids"),
       missing = n.attr("nodes_missing_value_tracks_true", Ints{});
  std::vector<std::string> mode = n.attr_strings("nodes_modes");
  std::vector<f64> value = floats_or_tensor(n, "nodes_values");
  size_t count = tree.size();
  for (size_t s : {id.size(), feature.size(), yes.size(), no.size(), mode.size(), value.size()})
    n.require(s == count, "the nodes_ attributes differ in length");
  n.require(missing.empty() || missing.size() == count, "nodes_missing_value_tracks_true has ", missing.size(), " elements for ", count,
            " nodes");
  std::map<std::pair<i64, i64>, i64> index;
  for (size_t i = 0; i < count; i++)
    n.require(index.insert({{tree[i], id[i]}, i64(i)}).second, "node ", id[i], " of tree ", tree[i], " is given twice");
  auto find = [&](i64 t, i64 node) {
    auto it = index.find({t, node});
    n.require(it != index.end(), "tree ", t, " has no node ", node);
    return it->second;
  };
  Trees r;
  r.targets = targets;
  r.nodes.resize(count);
  std::set<i64> seen;
  constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (size_t i = 0; i < count; i++) {
    TreeNode& node = r.nodes[i];
    auto m = std::ranges::find(kModes, mode[i]);
    n.require(m != std::end(kModes) && mode[i] != "BRANCH_MEMBER", "nodes_modes \"", mode[i], "\" is unknown");
    node.test = TreeNode::Test(m - std::begin(kModes));
    node.feature = feature[i], node.value = value[i];
    node.missing_is_true = !missing.empty() && missing[i];
    if (node.test != TreeNode::Leaf) node.yes = find(tree[i], yes[i]), node.no = find(tree[i], no[i]);
    if (seen.insert(tree[i]).second) r.roots.push_back(i64(i));  // the first node of a tree is its root
  }
  Ints ids = n.attr_ints(what + "_ids"), nodes = n.attr_ints(what + "_nodeids"), trees = n.attr_ints(what + "_treeids");
  std::vector<f64> weights = floats_or_tensor(n, what + "_weights");
  n.require(ids.size() == nodes.size() && ids.size() == trees.size() && ids.size() == weights.size(), "the ", what,
            "_ attributes differ in length");
  for (size_t i = 0; i < ids.size(); i++) r.nodes[find(trees[i], nodes[i])].weights.push_back({ids[i], weights[i]});
  return r;
}

Tensor add_base(OnnxNode& n, const Tensor& s) {
  std::vector<f64> base = floats_or_tensor(n, "base_values");
  n.require(base.empty() || base.size() == 1 || i64(base.size()) == s.size(1), base.size(), " base_values for ", s.size(1), " scores");
  return base.empty() ? s : s + row(s.dtype(), base);
}

TreeSum tree_sum(OnnxNode& n) {
  std::string how = n.attr("aggregate_function", "SUM");
  for (auto [text, s] : {std::pair("SUM", TreeSum::Sum), {"AVERAGE", TreeSum::Average}, {"MIN", TreeSum::Min}, {"MAX", TreeSum::Max}})
    if (how == text) return s;
  n.fail("aggregate_function \"", how, "\"; known: SUM, AVERAGE, MIN, MAX");
}

Tensor tree_regressor(OnnxNode& n) {
  Tensor x = as_float(n[0]);
  Trees t = read_trees(n, "target", n.attr("n_targets", 1));
  return post_transform(n, add_base(n, walk(n, t, x, tree_sum(n), x.dtype()))).cast(Kind::F32);
}

Tensors tree_classifier(OnnxNode& n) {
  Tensor x = as_float(n[0]);
  Ints labels = class_labels(n, "classlabels_int64s"), ids = n.attr_ints("class_ids");
  n.require(!labels.empty(), "classlabels_int64s is missing");
  i64 classes = i64(labels.size());
  std::vector<f64> weights = floats_or_tensor(n, "class_weights");
  bool binary = classes == 2 && std::set<i64>(ids.begin(), ids.end()).size() == 1;
  Trees t = read_trees(n, "class", classes);
  if (!binary) {
    Tensor s = add_base(n, walk(n, t, x, TreeSum::Sum, x.dtype()));
    return {Tensor::ints(labels).take(0, s.argmax(1).first), post_transform(n, s).cast(Kind::F32)};
  }
  // One score for two classes: a probability if no weight is negative.
  i64 only = ids[0];
  t.targets = 1;
  for (TreeNode& node : t.nodes)
    for (auto& w : node.weights) w.first = 0;
  bool positive = std::ranges::all_of(weights, [](f64 w) { return w >= 0; });
  std::vector<f64> base = floats_or_tensor(n, "base_values");
  n.require(base.size() <= (only == 0 ? 1 : 0), base.size(), " base_values of a binary classifier with weights of class ", only,
            " are not supported");
  Tensor s = walk(n, t, x, TreeSum::Sum, x.dtype());
  if (!base.empty()) s = s + base[0];
  Tensor label = Tensor::ints(labels).take(0, s.gt(s.like(positive ? 0.5 : 0)).squeeze(1).cast(Kind::I64));
  // Weights of the second class alone leave the first one's score at 0.
  Tensor scores =
      only == 0 ? binary_scores(n, s, positive) : post_transform(n, Tensor::concat({Tensor::full(s.shape(), s.dtype(), 0), s}, 1));
  return {label, scores.cast(Kind::F32)};
}

// ai.onnx.ml 5: nodes and leaves in lists of their own.
Tensor tree_ensemble(OnnxNode& n) {
  Tensor x = as_float(n[0]);
  Ints feature = n.attr_ints("nodes_featureids"), yes = n.attr_ints("nodes_truenodeids"), no = n.attr_ints("nodes_falsenodeids");
  Ints yes_leaf = n.attr_ints("nodes_trueleafs"), no_leaf = n.attr_ints("nodes_falseleafs"), roots = n.attr_ints("tree_roots");
  Ints leaf_target = n.attr_ints("leaf_targetids"), missing = n.attr("nodes_missing_value_tracks_true", Ints{});
  auto tensor = [&](const char* attr) {
    const Values* v = Pool::current().value(n.attr_tensor(attr).uop());
    n.require(v, "attribute ", attr, " is larger than ", kFoldElems, " elements");
    return v;
  };
  const Values *split = tensor("nodes_splits"), *mode = tensor("nodes_modes"), *weight = tensor("leaf_weights");
  const Values* members = n.has_attr("membership_values") ? tensor("membership_values") : nullptr;
  i64 count = i64(feature.size()), leaves = i64(leaf_target.size());
  for (i64 s : {i64(yes.size()), i64(no.size()), i64(yes_leaf.size()), i64(no_leaf.size()), split->elems(), mode->elems()})
    n.require(s == count, "the nodes_ attributes differ in length");
  n.require(weight->elems() == leaves && (missing.empty() || i64(missing.size()) == count), "the leaf_ attributes differ in length");
  Trees t;
  t.targets = n.attr_int("n_targets");
  t.nodes.resize(count + leaves);
  i64 at = 0;
  for (i64 i = 0; i < count; i++) {
    TreeNode& node = t.nodes[i];
    i64 m = i64(mode->number(i));
    n.require(m >= 0 && m <= 6, "nodes_modes ", m, " is unknown");
    node.test = TreeNode::Test(m);
    node.feature = feature[i], node.value = split->number(i);
    node.missing_is_true = !missing.empty() && missing[i];
    node.yes = yes_leaf[i] ? count + yes[i] : yes[i];
    node.no = no_leaf[i] ? count + no[i] : no[i];
    if (node.test != TreeNode::Member) continue;
    n.require(members, "a node tests for members of a set, but membership_values is missing");
    while (at < members->elems() && !std::isnan(members->number(at))) node.members.push_back(members->number(at++));
    at++;  // the NaN that ends the set
  }
  for (i64 i = 0; i < leaves; i++) t.nodes[count + i].weights.push_back({leaf_target[i], weight->number(i)});
  for (i64 r : roots) {  // a tree that is one leaf: both branches lead to it
    n.require(r >= 0 && r < count, "tree_roots names node ", r, " of ", count);
    t.roots.push_back(yes_leaf[r] && no_leaf[r] && yes[r] == no[r] ? t.nodes[r].yes : r);
  }
  constexpr TreeSum kSums[] = {TreeSum::Average, TreeSum::Sum, TreeSum::Min, TreeSum::Max};
  i64 how = n.attr("aggregate_function", 1), post = n.attr("post_transform", 0);
  n.require(how >= 0 && how <= 3, "aggregate_function ", how, " is unknown");
  n.require(post == 0, "post_transform ", post, " is not supported");
  return walk(n, t, x, kSums[how], x.dtype());
}

constexpr OnnxOp kMlOps[] = {
    {"ArrayFeatureExtractor", 1, array_feature_extractor},
    {"Binarizer", 1, binarizer},
    {"CastMap", 1, Refused{"maps are not supported"}},
    {"CategoryMapper", 1, Refused{"strings are not supported"}},
    {"DictVectorizer", 1, Refused{"maps are not supported"}},
    {"FeatureVectorizer", 1, feature_vectorizer},
    {"Imputer", 1, imputer},
    {"LabelEncoder", 1, label_encoder},
    {"LinearClassifier", 1, linear_classifier},
    {"LinearRegressor", 1, linear_regressor},
    {"Normalizer", 1, normalizer},
    {"OneHotEncoder", 1, one_hot_encoder},
    {"SVMClassifier", 1, svm_classifier},
    {"SVMRegressor", 1, svm_regressor},
    {"Scaler", 1, scaler},
    {"TreeEnsemble", 5, tree_ensemble},
    {"TreeEnsembleClassifier", 1, tree_classifier},
    {"TreeEnsembleRegressor", 1, tree_regressor},
    {"ZipMap", 1, Refused{"maps are not supported; take the probabilities before this node"}},
};

}  // namespace

std::span<const OnnxOp> ml_ops() { return kMlOps; }

}  // namespace tg
