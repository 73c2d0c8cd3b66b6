// Loads ELF64 relocatable objects: sections of all objects side by side in one image (code, then constants, then data that is written),
// each relocation applied, then sealed. Position-independent code of x86-64 and AArch64, as clang -fPIC -c writes it. Relocation names and
// formulas: the psABI of x86-64 (gitlab.com/x86-psABIs) and "ELF for the Arm 64-bit Architecture" (github.com/ARM-software/abi-aa).
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime-lite/backend/cpu.h"
#include "runtime-lite/src/os.h"

namespace tgb {
namespace {

constexpr uint64_t kNowhere = ~uint64_t(0);
constexpr uint64_t kMost = uint64_t(1) << 30;  // of one image: all jumps inside it fit 32 bits

#if defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_X86_64;
#endif

// The only names that code may borrow.
struct External {
  const char* name;
  uint64_t address;
};
constexpr uint32_t kExternals = 3;
constexpr uint64_t kStub = 16;

struct Obj {
  const uint8_t* bytes;
  uint64_t size;
  const Elf64_Shdr* sections;
  uint32_t n_sections, n_symbols;
  const Elf64_Sym* symbols;
  const char* names;  // of symbols
  uint64_t names_size;
  uint64_t* at;  // where each section lies in the image, or kNowhere
};

class Loader {
 public:
  Loader(const Memory& memory, char* error, size_t error_bytes) : memory_(memory), error_(error), error_bytes_(error_bytes) {
    externals_[0] = {"memcpy", uint64_t(&memcpy)};
    externals_[1] = {"memmove", uint64_t(&memmove)};
    externals_[2] = {"memset", uint64_t(&memset)};
  }
  tgb_status load(const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Image* out);

 private:
  __attribute__((format(printf, 2, 3))) bool bad(const char* format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error_, error_bytes_, format, args);
    va_end(args);
    return false;
  }
  bool open(const Object& object, Obj* o);
  bool place(Obj* objs, uint32_t n);
  bool fill(const Obj& o);
  bool relocate(const Obj& o, const Elf64_Shdr& rela);
  bool apply(uint32_t type, uint8_t* loc, uint64_t room, uint64_t s, int64_t a, int external);
  bool symbol(const Obj& o, uint64_t index, uint64_t* address, int* external);
  bool find(const Obj& o, Entry* e);
  void stubs();
  // The slot that holds `target`. Equal targets share one: the two halves of an AArch64 access must name the same slot.
  uint64_t got(uint64_t target) {
    uint64_t* slots = reinterpret_cast<uint64_t*>(base_ + got_);
    uint64_t i = 0;
    while (i < got_used_ && slots[i] != target) i++;
    if (i == got_used_) slots[got_used_++] = target;
    return uint64_t(&slots[i]);
  }

  Memory memory_;
  char* error_;
  size_t error_bytes_;
  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0, exec_ = 0, read_ = 0, stubs_ = 0, got_ = 0, got_used_ = 0, got_slots_ = 0;
  External externals_[kExternals];
};

bool inside(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }
uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

bool needs_got(uint32_t type) {
#if defined(__aarch64__)
  return type == R_AARCH64_ADR_GOT_PAGE || type == R_AARCH64_LD64_GOT_LO12_NC;
#else
  return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
#endif
}

bool Loader::open(const Object& object, Obj* o) {
  o->bytes = static_cast<const uint8_t*>(object.bytes), o->size = object.size;
  Elf64_Ehdr h;
  if (o->size < sizeof h || memcmp(o->bytes, ELFMAG, SELFMAG)) return bad("is not an ELF object");
  memcpy(&h, o->bytes, sizeof h);
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL)
    return bad("is not a 64-bit relocatable ELF object");
  if (h.e_machine != kMachine) return bad("is for another processor (ELF machine %u, this is %u)", h.e_machine, kMachine);
  if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff % 8 || !inside(h.e_shoff, uint64_t(h.e_shnum) * sizeof(Elf64_Shdr), o->size))
    return bad("has malformed section headers");
  o->sections = reinterpret_cast<const Elf64_Shdr*>(o->bytes + h.e_shoff), o->n_sections = h.e_shnum;
  for (uint32_t i = 0; i < o->n_sections; i++) {
    const Elf64_Shdr& s = o->sections[i];
    if (s.sh_type == SHT_NULL) continue;
    if (s.sh_type != SHT_NOBITS && !inside(s.sh_offset, s.sh_size, o->size)) return bad("section %u reaches beyond the object", i);
    if (s.sh_size > kMost || s.sh_addralign > 4096 || (s.sh_addralign & (s.sh_addralign - 1)))
      return bad("section %u has a wrong size or alignment", i);
    if ((s.sh_flags & SHF_ALLOC) && (s.sh_flags & SHF_TLS)) return bad("has thread-local data");
    if ((s.sh_flags & SHF_WRITE) && (s.sh_flags & SHF_EXECINSTR)) return bad("section %u is both written and executed", i);
    if (s.sh_type == SHT_SYMTAB) {
      if (s.sh_offset % 8 || s.sh_entsize != sizeof(Elf64_Sym) || s.sh_link >= o->n_sections) return bad("has a malformed symbol table");
      const Elf64_Shdr& names = o->sections[s.sh_link];
      if (names.sh_type != SHT_STRTAB || !names.sh_size || !inside(names.sh_offset, names.sh_size, o->size) ||
          o->bytes[names.sh_offset + names.sh_size - 1])
        return bad("has a malformed table of names");
      o->symbols = reinterpret_cast<const Elf64_Sym*>(o->bytes + s.sh_offset), o->n_symbols = uint32_t(s.sh_size / sizeof(Elf64_Sym));
      o->names = reinterpret_cast<const char*>(o->bytes + names.sh_offset), o->names_size = names.sh_size;
    }
    if (s.sh_type == SHT_REL) return bad("has relocations without addends");
    if (s.sh_type == SHT_RELA && (s.sh_offset % 8 || s.sh_entsize != sizeof(Elf64_Rela) || s.sh_info >= o->n_sections))
      return bad("section %u: malformed relocations", i);
  }
  return o->symbols || bad("has no symbols");
}

// Loaded: what the file says must be in memory, but for unwind tables, which nothing here reads.
bool loaded(const Elf64_Shdr& s) {
  return (s.sh_flags & SHF_ALLOC) && s.sh_type != SHT_NULL && s.sh_type != SHT_NOTE && s.sh_type != 0x70000001;
}

bool Loader::place(Obj* objs, uint32_t n) {
  uint64_t end = 0;
  auto put = [&](uint64_t want) {
    for (uint32_t k = 0; k < n; k++)
      for (uint32_t i = 0; i < objs[k].n_sections; i++) {
        const Elf64_Shdr& s = objs[k].sections[i];
        uint64_t part = s.sh_flags & (SHF_EXECINSTR | SHF_WRITE);
        if (!loaded(s) || part != want) continue;
        end = round_up(end, s.sh_addralign > 16 ? s.sh_addralign : 16);
        objs[k].at[i] = end;
        end += s.sh_size;
        if (end > kMost) return bad("is too large");
      }
    return true;
  };
  if (!put(SHF_EXECINSTR)) return false;
  stubs_ = round_up(end, 16);
  exec_ = end = round_up(stubs_ + kExternals * kStub, kPage);
  if (!put(0)) return false;
  got_ = round_up(end, 8);
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < objs[k].n_sections; i++) {
      const Elf64_Shdr& s = objs[k].sections[i];
      if (s.sh_type != SHT_RELA || objs[k].at[s.sh_info] == kNowhere) continue;
      auto* r = reinterpret_cast<const Elf64_Rela*>(objs[k].bytes + s.sh_offset);
      for (uint64_t j = 0; j < s.sh_size / sizeof *r; j++) got_slots_ += needs_got(uint32_t(ELF64_R_TYPE(r[j].r_info)));
    }
  end = round_up(got_ + 8 * got_slots_, kPage);
  read_ = end - exec_;
  if (!put(SHF_WRITE)) return false;
  bytes_ = round_up(end, kPage);
  return bytes_ <= kMost || bad("is too large");
}

bool Loader::fill(const Obj& o) {
  for (uint32_t i = 0; i < o.n_sections; i++)
    if (o.at[i] != kNowhere && o.sections[i].sh_type != SHT_NOBITS)
      memcpy(base_ + o.at[i], o.bytes + o.sections[i].sh_offset, o.sections[i].sh_size);
  for (uint32_t i = 0; i < o.n_sections; i++)
    if (o.sections[i].sh_type == SHT_RELA && o.at[o.sections[i].sh_info] != kNowhere && !relocate(o, o.sections[i])) return false;
  return true;
}

void Loader::stubs() {
  for (uint32_t i = 0; i < kExternals; i++) {
    uint8_t* p = base_ + stubs_ + i * kStub;
#if defined(__aarch64__)
    const uint32_t code[2] = {0x58000050, 0xd61f0200};  // ldr x16, #8; br x16
    memcpy(p, code, 8);
    memcpy(p + 8, &externals_[i].address, 8);
#else
    const uint8_t code[6] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *0(%rip)
    memcpy(p, code, 6);
    memcpy(p + 6, &externals_[i].address, 8);
#endif
  }
}

bool Loader::symbol(const Obj& o, uint64_t index, uint64_t* address, int* external) {
  *external = -1;
  if (index >= o.n_symbols) return bad("has a relocation without a symbol");
  const Elf64_Sym& s = o.symbols[index];
  if (s.st_name >= o.names_size) return bad("has a symbol without a name");
  const char* name = o.names + s.st_name;
  if (s.st_shndx == SHN_UNDEF) {
    for (uint32_t i = 0; i < kExternals; i++)
      if (!strcmp(name, externals_[i].name)) {
        *external = int(i);
        *address = externals_[i].address;
        return true;
      }
    return bad("undefined symbol '%.100s': kernels may call memcpy, memmove and memset only", name);
  }
  if (s.st_shndx == SHN_ABS) {
    *address = s.st_value;
    return true;
  }
  if (s.st_shndx >= o.n_sections || o.at[s.st_shndx] == kNowhere || s.st_value > o.sections[s.st_shndx].sh_size)
    return bad("symbol '%.100s' is in no section", name);
  *address = uint64_t(base_) + o.at[s.st_shndx] + s.st_value;
  return true;
}

bool Loader::relocate(const Obj& o, const Elf64_Shdr& rela) {
  auto* r = reinterpret_cast<const Elf64_Rela*>(o.bytes + rela.sh_offset);
  const Elf64_Shdr& target = o.sections[rela.sh_info];
  for (uint64_t j = 0; j < rela.sh_size / sizeof *r; j++) {
    uint32_t type = uint32_t(ELF64_R_TYPE(r[j].r_info));
    uint64_t address = 0;
    int external = -1;
    if (!type) continue;  // R_*_NONE
    if (r[j].r_offset > target.sh_size) return bad("relocation beyond its section");
    if (!symbol(o, ELF64_R_SYM(r[j].r_info), &address, &external)) return false;
    if (!apply(type, base_ + o.at[rela.sh_info] + r[j].r_offset, target.sh_size - r[j].r_offset, address, r[j].r_addend, external))
      return false;
  }
  return true;
}

// Writes the relocated field at loc. s: the symbol's address; a call to an external goes through its stub.
bool Loader::apply(uint32_t type, uint8_t* loc, uint64_t room, uint64_t s, int64_t a, int external) {
  uint64_t p = uint64_t(loc);
  uint64_t callee = external >= 0 ? uint64_t(base_ + stubs_ + uint64_t(external) * kStub) : s;
  auto put64 = [&](uint64_t v) { return room >= 8 ? (memcpy(loc, &v, 8), true) : bad("relocation beyond its section"); };
  auto put32 = [&](uint64_t v) {
    if (room < 4) return bad("relocation beyond its section");
    int32_t narrow = int32_t(v);
    if (int64_t(v) != narrow) return bad("relocation %u does not fit: compile kernels with -fPIC", type);
    memcpy(loc, &narrow, 4);
    return true;
  };
#if defined(__aarch64__)
  uint32_t insn = 0;
  if (room < 4) return bad("relocation beyond its section");
  memcpy(&insn, loc, 4);
  auto store = [&](uint32_t v) { return memcpy(loc, &v, 4), true; };
  auto page = [](uint64_t v) { return v & ~uint64_t(0xfff); };
  auto adrp = [&](uint64_t t) {
    int64_t v = int64_t(page(t) - page(p)) >> 12;
    if (v != v << 43 >> 43) return bad("relocation %u does not fit", type);
    return store((insn & ~0x60ffffe0u) | uint32_t(v & 3) << 29 | uint32_t((v >> 2) & 0x7ffff) << 5);
  };
  auto lo12 = [&](uint64_t t, int shift) { return store((insn & ~0x3ffc00u) | uint32_t((t & 0xfff) >> shift) << 10); };
  switch (type) {
    case R_AARCH64_ABS64: return put64(s + uint64_t(a));
    case R_AARCH64_PREL64: return put64(s + uint64_t(a) - p);
    case R_AARCH64_PREL32: return put32(s + uint64_t(a) - p);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: {
      int64_t v = int64_t(callee + uint64_t(a) - p) >> 2;
      if (v != v << 38 >> 38) return bad("relocation %u does not fit", type);
      return store((insn & 0xfc000000u) | (uint32_t(v) & 0x3ffffffu));
    }
    case R_AARCH64_ADR_PREL_PG_HI21: return adrp(s + uint64_t(a));
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return lo12(s + uint64_t(a), 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return lo12(s + uint64_t(a), 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return lo12(s + uint64_t(a), 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return lo12(s + uint64_t(a), 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return lo12(s + uint64_t(a), 4);
    case R_AARCH64_ADR_GOT_PAGE: return adrp(got(s + uint64_t(a)));
    case R_AARCH64_LD64_GOT_LO12_NC: return lo12(got(s + uint64_t(a)), 3);
    default: return bad("unknown relocation %u", type);
  }
#else
  switch (type) {
    case R_X86_64_64: return put64(s + uint64_t(a));
    case R_X86_64_PC64: return put64(s + uint64_t(a) - p);
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return put32(callee + uint64_t(a) - p);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return put32(got(s) + uint64_t(a) - p);
    case R_X86_64_32:
    case R_X86_64_32S: return bad("relocation %u does not fit: compile kernels with -fPIC", type);
    default: return bad("unknown relocation %u", type);
  }
#endif
}

bool Loader::find(const Obj& o, Entry* e) {
  for (uint32_t i = 0; i < o.n_symbols; i++) {
    const Elf64_Sym& s = o.symbols[i];
    if (ELF64_ST_BIND(s.st_info) == STB_LOCAL || s.st_name >= o.names_size || strcmp(o.names + s.st_name, e->name)) continue;
    if (s.st_shndx >= o.n_sections || o.at[s.st_shndx] == kNowhere || !(o.sections[s.st_shndx].sh_flags & SHF_EXECINSTR) ||
        s.st_value >= o.sections[s.st_shndx].sh_size)
      break;
    e->kernel = base_ + o.at[s.st_shndx] + s.st_value;
    return true;
  }
  return bad("has no entry '%.100s'", e->name);
}

tgb_status Loader::load(const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Image* out) {
  Obj* objs = static_cast<Obj*>(memory_.alloc(memory_.ctx, n * sizeof(Obj) + 1, alignof(Obj)));
  if (!objs) return TGB_OUT_OF_MEMORY;
  memset(objs, 0, n * sizeof(Obj));
  uint64_t sections = 0;
  uint64_t* at = nullptr;
  bool good = true;
  for (uint32_t i = 0; good && i < n; i++) {
    good = open(objects[i], &objs[i]);
    sections += objs[i].n_sections;
  }
  tgb_status status = TGB_BAD_BUNDLE;
  if (good) {
    at = static_cast<uint64_t*>(memory_.alloc(memory_.ctx, sections * sizeof *at + 1, alignof(uint64_t)));
    good = at != nullptr;
    if (!good) status = TGB_OUT_OF_MEMORY;
  }
  if (good) {
    for (uint64_t i = 0; i < sections; i++) at[i] = kNowhere;
    for (uint32_t i = 0; i < n; at += objs[i++].n_sections) objs[i].at = at;
    at -= sections;
    good = place(objs, n);
  }
  if (good) {
    base_ = static_cast<uint8_t*>(os_code_alloc(bytes_));
    good = base_ != nullptr;
    if (!good) status = TGB_OUT_OF_MEMORY;
  }
  if (good) stubs();
  for (uint32_t i = 0; good && i < n; i++) good = fill(objs[i]);
  for (uint32_t i = 0; good && i < n_entries; i++) good = find(objs[entries[i].object], &entries[i]);
  if (good && !os_code_seal(base_, exec_, read_)) {
    status = TGB_DEVICE_ERROR;
    good = bad("the system does not let this process execute code that it loads");
  }
  if (!good && base_) os_code_free(base_, bytes_);
  if (at) memory_.free(memory_.ctx, at);
  memory_.free(memory_.ctx, objs);
  *out = {base_, bytes_};
  return good ? TGB_OK : status;
}

}  // namespace

tgb_status load_objects(const Memory& memory, const Object* objects, uint32_t n, Entry* entries, uint32_t n_entries, Image* out,
                        char* error, size_t error_bytes) {
  return Loader(memory, error, error_bytes).load(objects, n, entries, n_entries, out);
}

void unload_objects(const Image& image) {
  if (image.base) os_code_free(image.base, image.bytes);
}

}  // namespace tgb
