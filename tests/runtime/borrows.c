// An object that a runtime must refuse: it calls a function that no kernel may call.
#include <stdint.h>
float expf(float);
void borrows(void* const* args, const int64_t* ints, int64_t task) { ((float*)args[0])[task] = expf((float)ints[0]); }
