// Reads DEV by cutting it at ';', '+' and ':' in that order, and names the nearest known word where one is unknown.
#include "formats/target.h"

#include <stdio.h>
#include <string.h>

namespace tgf {

// clang-format off
const DeviceRow kDevices[] = {
  // device    renderers                  interfaces
  {"METAL",  {"METAL"},                 {}},
  {"AMD",    {"LLVM", "HIP"},           {"KFD", "PCI", "USB"}},
  {"NV",     {"CUDA", "PTX"},           {"NVK", "PCI"}},
  {"CUDA",   {"CUDA", "PTX", "NVCC"},   {}},
  {"QCOM",   {"CL", "IR3"},             {}},
  {"CL",     {"OPENCL"},                {}},
  {"CPU",    {"LLVM", "CLANG"},         {}},
  {"DSP",    {"DSP"},                   {}},
  {"WEBGPU", {"WGSL"},                  {}},
};
// clang-format on
const uint32_t kDeviceCount = sizeof kDevices / sizeof kDevices[0];

const DeviceRow* find_device(const char* device) {
  for (const DeviceRow& d : kDevices)
    if (!strcmp(d.device, device)) return &d;
  return nullptr;
}

namespace {

struct Piece {
  const char* at;
  size_t size;
};

// Cuts `p` at the first `c`: returns what stands before it and leaves the rest in `p`; `found` says whether there was one.
Piece cut(Piece& p, char c, bool* found) {
  const char* hit = p.size ? static_cast<const char*>(memchr(p.at, c, p.size)) : nullptr;
  *found = hit != nullptr;
  Piece head = hit ? Piece{p.at, size_t(hit - p.at)} : p;
  p = hit ? Piece{hit + 1, p.size - head.size - 1} : Piece{p.at + p.size, 0};
  return head;
}
size_t count(Piece p, char c) {
  size_t n = 0;
  for (size_t i = 0; i < p.size; i++) n += p.at[i] == c;
  return n;
}
Piece trim(Piece p) {
  while (p.size && (*p.at == ' ' || *p.at == '\t')) p = {p.at + 1, p.size - 1};
  while (p.size && (p.at[p.size - 1] == ' ' || p.at[p.size - 1] == '\t')) p.size--;
  return p;
}

size_t distance(const char* a, const char* b) {  // Levenshtein; both are short names
  size_t la = strlen(a), lb = strlen(b), prev[32];
  if (lb > 31) return la + lb;
  for (size_t j = 0; j <= lb; j++) prev[j] = j;
  for (size_t i = 1; i <= la; i++) {
    size_t diagonal = prev[0];
    prev[0] = i;
    for (size_t j = 1; j <= lb; j++) {
      size_t up = prev[j], change = diagonal + (a[i - 1] != b[j - 1]);
      size_t best = up < prev[j - 1] ? up + 1 : prev[j - 1] + 1;
      prev[j] = best < change ? best : change;
      diagonal = up;
    }
  }
  return prev[lb];
}

const char* nearest(const char* name, const char* best, const char* candidate) {
  return !best || distance(name, candidate) < distance(name, best) ? candidate : best;
}

bool is_indices(const char* s) {  // "0,2" or "0-3" or a mix
  bool digit = false;
  for (; *s; s++) {
    if (*s >= '0' && *s <= '9') {
      digit = true;
    } else if ((*s == ',' || *s == '-') && digit) {
      digit = false;
    } else {
      return false;
    }
  }
  return digit;
}

struct Parser {
  char* error;
  size_t error_bytes;
  Piece whole;  // the target being read, for messages

  int shown() const { return whole.size > 200 ? 200 : int(whole.size); }
  bool too_many(char c) {
    snprintf(error, error_bytes, "too many '%c' in target string: '%.*s'; a target is [interface[:indices]+]device[:renderer[:arch]]", c,
             shown(), whole.at);
    return false;
  }
  bool store(Piece p, bool upper, char* to, size_t bytes, const char* what) {
    if (p.size >= bytes) {
      snprintf(error, error_bytes, "DEV=%.*s: the %s is %zu characters long, at most %zu are allowed", shown(), whole.at, what, p.size,
               bytes - 1);
      return false;
    }
    for (size_t i = 0; i < p.size; i++) {
      char c = p.at[i];
      if (upper && c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
      to[i] = c;
    }
    to[p.size] = 0;
    return true;
  }
  bool target(Piece text, Target* t);
  bool names(const Target& t);
};

bool Parser::target(Piece text, Target* t) {
  *t = {};
  whole = text;
  if (count(text, '+') > 1) return too_many('+');
  bool has_iface = false, more = false;
  Piece rest = text, head = cut(rest, '+', &has_iface);
  if (has_iface) {
    Piece iface = head, name = cut(iface, ':', &more);
    if (!store(trim(name), true, t->iface, sizeof t->iface, "interface")) return false;
    bool rpc = !strcmp(t->iface, "RPC");
    if (count(iface, ':') > (rpc ? 1u : 0u)) return too_many(':');
    if (!store(trim(iface), false, t->indices, sizeof t->indices, rpc ? "address" : "list of indices")) return false;
    if (t->indices[0] && !rpc && !is_indices(t->indices)) {
      snprintf(error, error_bytes, "DEV=%.*s: invalid visibility filter '%s'; write indices as 1 or 0,2 or 0-3", shown(), whole.at,
               t->indices);
      return false;
    }
    if (rpc && !t->indices[0]) {
      snprintf(error, error_bytes, "DEV=%.*s: RPC needs the agent's address: RPC:host:port+device", shown(), whole.at);
      return false;
    }
  } else {
    rest = text;
  }
  if (count(rest, ':') > 2) return too_many(':');
  Piece device = cut(rest, ':', &more), renderer = cut(rest, ':', &more);
  return store(trim(device), true, t->device, sizeof t->device, "device") &&
         store(trim(renderer), true, t->renderer, sizeof t->renderer, "renderer") &&
         store(trim(rest), false, t->arch, sizeof t->arch, "arch") && names(*t);
}

bool Parser::names(const Target& t) {
  const DeviceRow* device = t.device[0] ? find_device(t.device) : nullptr;
  const char* best = nullptr;
  if (t.device[0] && !device) {
    for (const DeviceRow& d : kDevices) best = nearest(t.device, best, d.device);
    snprintf(error, error_bytes, "DEV=%.*s: unknown device '%s', did you mean: '%s'? List with: tgaot devices", shown(), whole.at, t.device,
             best);
    return false;
  }
  const char* owner = device ? device->device : "any device";
  bool known = !t.renderer[0];
  for (const DeviceRow& d : kDevices)
    if (!device || device == &d)
      for (const auto& r : d.renderers)
        if (*r) best = nearest(t.renderer, best, r), known |= !strcmp(r, t.renderer);
  if (!known) {
    snprintf(error, error_bytes, "DEV=%.*s: %s has no renderer '%s', did you mean: '%s'?", shown(), whole.at, owner, t.renderer, best);
    return false;
  }
  known = !t.iface[0] || !strcmp(t.iface, "RPC");
  best = "RPC";
  for (const DeviceRow& d : kDevices)
    if (!device || device == &d)
      for (const auto& i : d.interfaces)
        if (*i) best = nearest(t.iface, best, i), known |= !strcmp(i, t.iface);
  if (!known)
    snprintf(error, error_bytes, "DEV=%.*s: %s has no interface '%s', did you mean: '%s'?", shown(), whole.at, owner, t.iface, best);
  return known;
}

}  // namespace

bool parse_targets(const char* dev, Target out[kMaxTargets], uint32_t* n, char* error, size_t error_bytes) {
  *n = 0;
  Parser parser{error, error_bytes, {}};
  Piece rest = trim({dev, strlen(dev)});
  while (rest.size) {
    bool more = false;
    Piece text = trim(cut(rest, ';', &more));
    if (*n == kMaxTargets) {
      snprintf(error, error_bytes, "DEV names more than %u targets", kMaxTargets);
      return false;
    }
    if (!parser.target(text, &out[*n])) return false;
    ++*n;
  }
  return true;
}

size_t print_target(const Target& t, char* out, size_t bytes) {
  bool iface = t.iface[0] || t.indices[0];
  int n = snprintf(out, bytes, "%s%s%s%s%s%s%s%s%s", t.iface, t.indices[0] ? ":" : "", t.indices, iface ? "+" : "", t.device,
                   t.renderer[0] || t.arch[0] ? ":" : "", t.renderer, t.arch[0] ? ":" : "", t.arch);
  return n < 0 ? 0 : size_t(n);
}

}  // namespace tgf
