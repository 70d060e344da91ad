// millrace.h is all that a program includes, and it may be included twice. Compiled as C11, and as
// C++98 to C++20 through header.cc.
#include <millrace.h>

mr_error* (*const kept)(mr_loader*, int64_t, mr_batch**, int32_t*) = mr_loader_next;
