// Small ONNX models made in a test: written to a temporary folder, imported, and run by the interpreter.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "frontend/import.h"
#include "frontend/onnx_file.h"
#include "ir/eval.h"

namespace tg::test {

struct TempFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tgaot_frontend_" + std::to_string(getpid()) + "_" + std::to_string(count()++));
  TempFolder() { std::filesystem::create_directories(path); }
  ~TempFolder() { std::filesystem::remove_all(path); }
  static int& count() {
    static int n = 0;
    return n;
  }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

inline int onnx_number(Kind k) { return tgf::row(tgf::Dtype(k)).onnx; }

class Model {
 public:
  explicit Model(i64 opset = 20) { import("", opset); }
  tgonnx::ModelProto proto;
  TempFolder folder;

  Model& import(const std::string& domain, i64 version) {
    auto* o = proto.add_opset_import();
    o->set_domain(domain);
    o->set_version(version);
    return *this;
  }
  // dims: numbers, or names of free dimensions.
  Model& input(const std::string& name, Kind k, const std::vector<std::string>& dims) {
    auto* v = proto.mutable_graph()->add_input();
    v->set_name(name);
    auto* t = v->mutable_type()->mutable_tensor_type();
    t->set_elem_type(onnx_number(k));
    t->mutable_shape();
    for (const std::string& d : dims) {
      auto* dim = t->mutable_shape()->add_dim();
      if (!d.empty() && std::isdigit(d[0]))
        dim->set_dim_value(std::stoll(d));
      else if (!d.empty())
        dim->set_dim_param(d);
    }
    return *this;
  }
  Model& output(const std::string& name) {
    proto.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  tgonnx::TensorProto& weight(const std::string& name, const Values& v) {
    auto* t = proto.mutable_graph()->add_initializer();
    fill(t, v);
    t->set_name(name);
    return *t;
  }
  tgonnx::NodeProto& node(const std::string& op, const std::vector<std::string>& in, const std::vector<std::string>& out) {
    return fill(proto.mutable_graph()->add_node(), op, in, out);
  }
  static tgonnx::NodeProto& fill(tgonnx::NodeProto* n, const std::string& op, const std::vector<std::string>& in,
                                 const std::vector<std::string>& out) {
    n->set_op_type(op);
    n->set_name(op + "_" + (out.empty() ? "" : out[0]));
    for (auto& i : in) n->add_input(i);
    for (auto& o : out) n->add_output(o);
    return *n;
  }
  static void fill(tgonnx::TensorProto* t, const Values& v) {
    t->set_data_type(onnx_number(v.dtype.kind));
    for (i64 d : v.dims) t->add_dims(d);
    std::vector<u8> b = encode(v);
    t->set_raw_data(b.data(), b.size());
  }

  std::string write() const {
    std::string path = folder.file("model.onnx");
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
    return path;
  }
  Graph load(const ImportOptions& o = {}) const { return import_onnx(write(), o); }
  std::vector<Values> run(const std::vector<Values>& in, const ImportOptions& o = {}) const {
    Graph g = load(o);
    Arena::Scope scope(*g.arena);
    return eval_graph(g, in);
  }
  // The message that import fails with; the path is cut off.
  std::string error(const ImportOptions& o = {}) const {
    try {
      load(o);
    } catch (const Error& e) {
      std::string s = e.what(), path = folder.file("model.onnx");
      for (size_t i; (i = s.find(path)) != s.npos;) s.replace(i, path.size(), "MODEL");
      return s;
    }
    return "no error";
  }
};

inline tgonnx::AttributeProto& attr(tgonnx::NodeProto& n, const std::string& name, i64 v) {
  auto* a = n.add_attribute();
  a->set_name(name), a->set_type(2), a->set_i(v);
  return *a;
}
inline tgonnx::AttributeProto& attr_s(tgonnx::NodeProto& n, const std::string& name, const std::string& v) {
  auto* a = n.add_attribute();
  a->set_name(name), a->set_type(3), a->set_s(v);
  return *a;
}
inline tgonnx::AttributeProto& attr_ints(tgonnx::NodeProto& n, const std::string& name, const std::vector<i64>& v) {
  auto* a = n.add_attribute();
  a->set_name(name), a->set_type(7);
  for (i64 x : v) a->add_ints(x);
  return *a;
}

inline Values f32s(std::vector<i64> dims, std::vector<f64> v) { return values(Kind::F32, std::move(dims), v); }
inline Values i64s(std::vector<i64> dims, std::vector<i64> v) { return int_values(Kind::I64, std::move(dims), v); }

}  // namespace tg::test
