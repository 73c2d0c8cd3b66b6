// What serves text: n-grams of numbers; strings themselves are refused. https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
#include <algorithm>

#include "frontend/onnx_op.h"

namespace tg {
namespace {

// How often each n-gram of the pool stands in each row of x (rows, C): a window of its length over every `distance`-th element.
// grams: (count, length). Gives (rows, count), f32.
Tensor occurrences(const Tensor& x, const Tensor& grams, i64 distance) {
  i64 length = grams.size(1), places = x.size(1) - distance * (length - 1);
  Tensor hit;
  for (i64 k = 0; k < length; k++) {
    Tensor item = x.shrink(1, k * distance, places).unsqueeze(2);         // (rows, places, 1)
    Tensor same = item.eq(grams.shrink(1, k, 1).reshape(Ints{1, 1, -1}));  // (rows, places, count)
    hit = hit ? hit & same : same;
  }
  return hit.cast(Kind::F32).sum(Ints{1});
}

Tensor tf_idf(OnnxNode& n) {
  n.require(!n.has_attr("pool_strings") && n.has_attr("pool_int64s"), "a pool of strings, which are not supported; map them to numbers before");
  i64 shortest = n.attr_int("min_gram_length"), longest = n.attr_int("max_gram_length"), skips = n.attr_int("max_skip_count");
  Ints starts = n.attr_ints("ngram_counts"), places = n.attr_ints("ngram_indexes"), pool = n.attr_ints("pool_int64s");
  std::string mode = n.attr_string("mode");
  std::vector<f32> weights = n.attr_floats("weights");
  n.require(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode must be TF, IDF or TFIDF, not ", mode);
  n.require(shortest >= 1 && longest >= shortest && i64(starts.size()) >= longest && skips >= 0, "n-grams of ", shortest, " to ", longest,
            " items, ", skips, " skipped, from a pool with ", starts.size(), " lengths");
  n.require(!places.empty() && std::ranges::all_of(places, [](i64 p) { return p >= 0 && p < (1 << 24); }), "ngram_indexes are out of range");
  n.require(weights.empty() || weights.size() == places.size(), weights.size(), " weights for ", places.size(), " n-grams");
  Ints distinct = places;
  std::ranges::sort(distinct);
  n.require(mode != "IDF" || std::ranges::adjacent_find(distinct) == distinct.end(), "several n-grams share a column, which mode IDF does not define");
  i64 columns = *std::ranges::max_element(places) + 1;

  Tensor x = n[0].cast(Kind::I64);
  n.require(n[0].is_int() && x.rank() >= 1 && x.rank() <= 2, "input ", shape_text(x.shape()), " of ", name(n[0].dtype()),
            " must be (items) or (rows, items) of integers");
  bool row = x.rank() == 1;
  if (row) x = x.unsqueeze(0);

  Tensor total = Tensor::full(dims({x.size(0), columns}), Kind::F32, 0);
  i64 first = 0;  // number of the n-gram
  for (i64 length = 1; length <= longest; length++) {
    i64 begin = starts[size_t(length - 1)], end = length < i64(starts.size()) ? starts[size_t(length)] : i64(pool.size());
    n.require(0 <= begin && begin <= end && end <= i64(pool.size()) && (end - begin) % length == 0, "ngram_counts at length ", length, ": items ",
              begin, " to ", end, " of a pool of ", pool.size());
    i64 count = (end - begin) / length, mine = first;
    first += count;
    n.require(first <= i64(places.size()), "the pool has more n-grams than the ", places.size(), " ngram_indexes");
    if (!count || length < shortest) continue;
    Tensor grams = Tensor::of_ints(Kind::I64, Ints{count, length}, IntSpan(pool).subspan(size_t(begin), size_t(count * length)));
    Tensor sum;
    for (i64 distance = 1; distance <= (length == 1 ? 1 : skips + 1); distance++) {
      if (x.size(1) < distance * (length - 1) + 1) break;
      Tensor some = occurrences(x, grams, distance);
      sum = sum ? sum + some : some;
    }
    if (!sum) continue;
    if (mode == "IDF") sum = sum.gt(sum.like(0)).cast(Kind::F32);
    if (mode != "TF" && !weights.empty())
      sum = sum * Tensor::of(Kind::F32, Ints{count}, std::vector<f64>(weights.begin() + mine, weights.begin() + mine + count));
    Tensor at = Tensor::ints(IntSpan(places).subspan(size_t(mine), size_t(count))).unsqueeze(0).expand(sum.shape());
    Tensor rows = Tensor::arange(x.dim(0)).unsqueeze(1).expand(sum.shape());
    total = total.scatter(std::vector<Tensor>{rows, at}, sum, ScatterKind::Add);
  }
  return row ? total.squeeze(0) : total;
}

constexpr Refused kString{"strings are not supported"};

// clang-format off
constexpr OnnxOp kTextOps[] = {
  {"RegexFullMatch",   20, kString},
  {"StringConcat",     20, kString},
  {"StringNormalizer", 10, kString},
  {"StringSplit",      20, kString},
  {"TfIdfVectorizer",   9, tf_idf},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> text_ops() { return kTextOps; }

}  // namespace tg
