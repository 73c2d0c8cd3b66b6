// The grammar of DEV: targets separated by ';', each [interface[:indices]+]device[:renderer[:arch]]. Compiler, runtime and tools read it
// with this parser; nothing is allocated.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tgf {

// One target. Device, renderer and interface are upper-cased; arch is as written. An empty field means "choose".
struct Target {
  char iface[16];     // "KFD", "USB", "RPC"; "" : the device's own first choice
  char indices[80];   // "1", "0,2", "0-3"; after RPC: "host:port"
  char device[16];    // "CPU"
  char renderer[16];  // "LLVM"
  char arch[256];     // "x86_64,znver2,avx2,-avx512f", "gfx950"
};
constexpr uint32_t kMaxTargets = 16;

// Parses `dev` into out[0..*n). An empty `dev` gives *n = 0. False: `error` holds one line that names the target, what was expected and
// what to do.
bool parse_targets(const char* dev, Target out[kMaxTargets], uint32_t* n, char* error, size_t error_bytes);

// The canonical text of a target, as parse_targets reads it: "USB:1+AMD::gfx950". Empty parts at the end are left out. Returns the length
// that it needs without the final 0; writes at most `bytes`, always ending in 0.
size_t print_target(const Target& t, char* out, size_t bytes);

// What the grammar knows, in the order in which an empty DEV tries devices; a renderer that comes first is the default one.
struct DeviceRow {
  char device[8];
  char renderers[4][8];   // "" ends the list
  char interfaces[4][8];  // beside RPC, which every device has; "" ends the list
};
extern const DeviceRow kDevices[];
extern const uint32_t kDeviceCount;
const DeviceRow* find_device(const char* device);  // upper case; nullptr: unknown

}  // namespace tgf
