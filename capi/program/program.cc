#include "cli/program.h"

#include "capi/millrace.h"

int mr_main(int argc, char** argv) { return millrace::cli::RunProgram(argc, argv); }
