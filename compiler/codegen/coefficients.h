// Polynomial coefficients, lowest power first. Made by tools/numerics/coefficients.sollya; do not edit.
#pragma once
#include "base/types.h"

namespace tg::coef {
// clang-format off
// kExp32: relative error 2^-28.1015625
inline constexpr f32 kExp32[] = {0x1.fffffap-2f, 0x1.55548ap-3f, 0x1.555a12p-5f, 0x1.123f7cp-7f, 0x1.696e4ep-10f};
// kExp2_32: relative error 2^-32.421875
inline constexpr f32 kExp2_32[] = {0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6b072p-5f, 0x1.3b2a46p-7f, 0x1.5da0b2p-10f, 0x1.4427d4p-13f, 0x1.e665c2p-17f};
// kLog32: relative error 2^-26.9140625
inline constexpr f32 kLog32[] = {0x1.55557p-2f, -0x1.000234p-2f, 0x1.99944ep-3f, -0x1.5466fep-3f, 0x1.239ce2p-3f, -0x1.0e96ccp-3f, 0x1.015974p-3f, -0x1.2a6f78p-4f};
// kSin32: relative error 2^-32.25
inline constexpr f32 kSin32[] = {-0x1.555556p-3f, 0x1.111164p-7f, -0x1.a04824p-13f, 0x1.77c182p-19f};
// kCos32: relative error 2^-32.859375
inline constexpr f32 kCos32[] = {0x1.55554ap-5f, -0x1.6c0c1ep-10f, 0x1.99e334p-16f};
// kTan32: relative error 2^-29.328125
inline constexpr f32 kTan32[] = {0x1.555562p-2f, 0x1.110d24p-3f, 0x1.baee0ep-5f, 0x1.5bf63cp-6f, 0x1.66d2p-7f, -0x1.d60a14p-15f, 0x1.23894ap-8f};
// kAsin32: relative error 2^-31.671875
inline constexpr f32 kAsin32[] = {0x1.55554cp-3f, 0x1.33389ep-4f, 0x1.6caab6p-5f, 0x1.04af34p-5f, 0x1.d7924cp-7f, 0x1.33d432p-5f};
// kAtan32: relative error 2^-28.5
inline constexpr f32 kAtan32[] = {-0x1.55553ep-2f, 0x1.9991ecp-3f, -0x1.24211ap-3f, 0x1.c0946cp-4f, -0x1.5825f2p-4f, 0x1.da9c2ep-5f, -0x1.fe7d24p-6f, 0x1.6551e2p-7f, -0x1.d5a1aap-10f};
// kTanh32: relative error 2^-27.7109375
inline constexpr f32 kTanh32[] = {-0x1.555532p-2f, 0x1.110704p-3f, -0x1.b838ap-5f, 0x1.5211c4p-6f, -0x1.758facp-8f};
// kErf32: relative error 2^-25.7578125
inline constexpr f32 kErf32[] = {0x1.06eba6p-3f, -0x1.8126e2p-2f, 0x1.ce1986p-4f, -0x1.b67c04p-6f, 0x1.46d9e6p-8f, -0x1.387442p-11f};
// kErfTail32: relative error 2^-23.7265625
inline constexpr f32 kErfTail32[] = {-0x1.07cf12p-3f, -0x1.44d9dep-1f, -0x1.b7cb08p-4f, 0x1.95a686p-6f, -0x1.0eceep-8f, 0x1.dc61c2p-12f, -0x1.d95dfcp-16f, 0x1.735814p-21f};
// kLogRatio32: relative error 2^-36.6875
inline constexpr f32 kLogRatio32[] = {0x1.999a04p-2f, 0x1.2450d6p-2f, 0x1.dff3a2p-3f};
// kExp2Fast32: relative error 2^-23.3125
inline constexpr f32 kExp2Fast32[] = {0x1.62e42ap-1f, 0x1.ebf9b6p-3f, 0x1.c6b69ap-5f, 0x1.3ceca6p-7f, 0x1.5bffbap-10f};
// kExpTable32: relative error 2^-33.1875
inline constexpr f32 kExpTable32[] = {0x1p0f, 0x1.000088p-1f, 0x1.55559p-3f};
// kExpTableFast32: relative error 2^-24.1484375
inline constexpr f32 kExpTableFast32[] = {0x1.0000f8p0f, 0x1.000004p-1f};
// kGelu32: relative error 2^-24.703125
inline constexpr f32 kGelu32[] = {0x1.ffe11p-2f, -0x1.fe236cp-3f, 0x1.78b7bp-3f, -0x1.2ca678p-3f, 0x1.e15ab6p-4f, -0x1.75098p-4f, 0x1.1147e6p-4f, -0x1.737672p-5f, 0x1.e0458p-6f, -0x1.33bb9ep-6f, 0x1.489d2ap-7f, -0x1.c5c164p-9f, 0x1.0740a6p-9f, -0x1.152346p-9f, 0x1.a868a4p-11f};

// kExp64: relative error 2^-63.484375
inline constexpr f64 kExp64[] = {0x1p-1, 0x1.555555555555cp-3, 0x1.555555555553cp-5, 0x1.111111110e955p-7, 0x1.6c16c16c21c0fp-10, 0x1.a01a01b4ae707p-13, 0x1.a01a016d6d43dp-16, 0x1.71dded20f7dcdp-19, 0x1.27e55267ae946p-22, 0x1.af712d94dd5dap-26, 0x1.1ec29ba8d5d6p-29};
// kExp2_64: relative error 2^-59.375
inline constexpr f64 kExp2_64[] = {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c59p-3, 0x1.c6b08d704a1bfp-5, 0x1.3b2ab6fba4ab2p-7, 0x1.5d87fe787386ap-10, 0x1.430912f959079p-13, 0x1.ffcbfd834b099p-17, 0x1.62c01ef2450d3p-20, 0x1.b521c7803edabp-24, 0x1.e4da13ff96a03p-28, 0x1.f2e0d19f9cf92p-32, 0x1.b6cd8eb5c24b7p-36, -0x1.3f7c3711b3adfp-37};
// kLogRatio64: relative error 2^-73.3125
inline constexpr f64 kLogRatio64[] = {0x1.9999999999995p-2, 0x1.2492492493185p-2, 0x1.c71c71c559c15p-3, 0x1.745d1844682b9p-3, 0x1.3b135dfbc552cp-3, 0x1.112168a85994p-3, 0x1.de176dc546d01p-4, 0x1.ebf7afc8a87f3p-4};
// kSin64: relative error 2^-62.84375
inline constexpr f64 kSin64[] = {-0x1.5555555555555p-3, 0x1.111111111108dp-7, -0x1.a01a01a0075e1p-13, 0x1.71de3a40e5741p-19, -0x1.ae643e6735614p-26, 0x1.61156ae12fbb8p-33, -0x1.a5c27fb56d48ep-41};
// kCos64: relative error 2^-63.8125
inline constexpr f64 kCos64[] = {0x1.555555555554ap-5, -0x1.6c16c16c14df7p-10, 0x1.a01a019c5abd9p-16, -0x1.27e4f7cbccee6p-22, 0x1.1ee9c217a6ea6p-29, -0x1.8f99257515d56p-37};
// kTan64: relative error 2^-59.703125
inline constexpr f64 kTan64[] = {0x1.555555555555fp-2, 0x1.111111111047ep-3, 0x1.ba1ba1bad213p-5, 0x1.664f4858ff1adp-6, 0x1.226e3b0a379cep-7, 0x1.d6d2d10dcb5f9p-9, 0x1.7db2d3dd78c0cp-10, 0x1.34af54cee9d4p-11, 0x1.ffe5f64efc591p-13, 0x1.5ac87e33fee88p-14, 0x1.20b71e573b342p-14, -0x1.d088524fb50edp-16, 0x1.a677a6d88f1cap-15, -0x1.a5ad9b812aff1p-16, 0x1.4f423f6d3947fp-17};
// kAsin64: relative error 2^-59.859375
inline constexpr f64 kAsin64[] = {0x1.5555555555577p-3, 0x1.333333332e133p-4, 0x1.6db6db721247bp-5, 0x1.f1c71a95002fbp-6, 0x1.6e8bdedebf9dfp-6, 0x1.1c49f077d5bc7p-6, 0x1.ca1f8af1f0a39p-7, 0x1.75859dad05d9ap-7, 0x1.613c1e6ed7236p-7, 0x1.e5fbe88dfeb2cp-9, 0x1.639a894e21126p-6, -0x1.57fad0dea93ccp-6, 0x1.0b45e9f72d94bp-5};
// kAtan64: relative error 2^-62.78125
inline constexpr f64 kAtan64[] = {-0x1.5555555555554p-2, 0x1.9999999999732p-3, -0x1.2492492486524p-3, 0x1.c71c71c354ce1p-4, -0x1.745d16e9a8f57p-4, 0x1.3b13ab6587b77p-4, -0x1.1110ce26d6acdp-4, 0x1.e1dd736db1c6dp-5, -0x1.af0bc55b3b321p-5, 0x1.8587bc50a9c8p-5, -0x1.61e7c167740b7p-5, 0x1.405476455886cp-5, -0x1.1bf50da408561p-5, 0x1.dff6908d6a6cp-6, -0x1.756f5f403019bp-6, 0x1.012f2c0f5f551p-6, -0x1.2cf111bf87e1bp-7, 0x1.1e577456a99fdp-8, -0x1.a4c5d47a02472p-10, 0x1.bc838799a6af1p-12, -0x1.2ad728865b12p-14, 0x1.7eb58e9b2d966p-18};
// kErf64: relative error 2^-56.328125
inline constexpr f64 kErf64[] = {0x1.06eba8214db69p-3, -0x1.812746b037a01p-2, 0x1.ce2f21a043a2p-4, -0x1.b82ce312c2592p-6, 0x1.565bcd16a3ac5p-8, -0x1.c02db5775f924p-11, 0x1.f9a3533b7332p-14, -0x1.f4d5ef5305acdp-17, 0x1.ba1a277f4e087p-20, -0x1.61747cc7e7731p-23, 0x1.0bf5a0a983ce8p-26, -0x1.c9014402f954fp-30, 0x1.fe1ec9b841a7p-33, -0x1.ba81b80dc7498p-36};
// kErfc64: relative error 2^-54.859375
inline constexpr f64 kErfc64[] = {0x1.6e9827d229d2dp-3, -0x1.4e102b9cf8513p-2, 0x1.f6ff20410592ep-3, -0x1.336ffbef08b88p-3, 0x1.258b13b01b3a3p-4, -0x1.8fa58eb5cdea6p-6, 0x1.17c838e41cb1fp-8, 0x1.73101e246a9f3p-11, -0x1.390844443490ap-11, 0x1.7ba1b01ac2b57p-15, 0x1.0ca8a8cbbc979p-14, -0x1.afb7d7b0c65c9p-17, -0x1.0ad6a1aaee6ddp-17, 0x1.243e2f65b1198p-19, 0x1.369be29a22184p-20, -0x1.3e53676b936f3p-21, -0x1.8be720aaafe0ap-23, 0x1.62002c3a05904p-21, 0x1.01db6c5d6fdc4p-21};

inline constexpr u32 kTwoOverPi[] = {0, 0, 2734261102u, 1313084713u, 4230436817u, 4113882560u, 3680671129u, 1011060801u, 4266746795u, 3736847713u, 3072618042u, 1112396512u, 105459434u, 164729372u, 4263373596u, 2972297022u, 3900847605u, 784024708u, 3919343654u, 3026157121u, 965858873u, 2203269620u, 2625920907u, 3187222587u, 536385535u, 3724908559u, 4012839307u, 1510632735u, 1832287951u, 667617719u, 1330003814u, 2657085997u, 1965537991u, 3957715323u, 1023883767u, 2320667370u, 1811636145u, 529358088u, 1443049542u, 4235946923u, 4040145952u, 2599695901u, 2850263393u, 1592138504u};
// clang-format on
}  // namespace tg::coef
