// https://llvm.org/doxygen/classllvm_1_1CrashRecoveryContext.html: signals jump back to RunSafely. report_fatal_error() ends in abort(),
// after its handler had the reason. No exception may pass through RunSafely, which is built without them.
#include "backend/llvm/recover.h"

#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/ErrorHandling.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.h"

namespace tg {
namespace {

void keep_reason(void* to, const char* reason, bool) {
  *static_cast<std::string*>(to) = reason;
  std::abort();
}

}  // namespace

Result<std::vector<u8>> run_recovering(const std::function<Result<std::vector<u8>>()>& f) {
  using R = Result<std::vector<u8>>;
  std::string reason;
  llvm::ScopedFatalErrorHandler handler(keep_reason, &reason);
  llvm::CrashRecoveryContext::Enable();
  std::optional<R> answer;
  llvm::CrashRecoveryContext context;
  bool whole = context.RunSafely([&] {
    try {
      answer = f();
    } catch (const Error& e) { answer = R::no(e.what()); }
  });
  llvm::CrashRecoveryContext::Disable();
  if (whole) return std::move(*answer);
  int signal_number = context.RetCode > 128 ? context.RetCode - 128 : 0;
  return R::no("compilation crashed: ", !reason.empty() ? reason
                                        : signal_number ? std::string(strsignal(signal_number))
                                                        : str("code ", context.RetCode));
}

}  // namespace tg
