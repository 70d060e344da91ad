// millrace.h and, where they are used, the headers beside it are all that a program includes, once
// or twice.
// Compiled as C11, and as C++98 to C++20 through header.cc.
#include <millrace.h>
#include <millrace_collectives.h>
#include <millrace_device.h>
#include <millrace_diagnosis.h>
#include <millrace_ops.h>
#include <millrace_options.h>
#include <millrace_push.h>

mr_error* (*const kept)(mr_loader*, int64_t, mr_batch**, int32_t*) = mr_loader_next;
