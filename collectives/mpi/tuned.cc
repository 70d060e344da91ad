// How Open MPI is made to sum by its segmented ring on one communicator and no other.
//
// `tuned` looks for a forced algorithm whenever a communicator is made, so a variable of MPI_T that
// is written before MPI_Comm_idup and put back when that has ended forces one alone. But it looks
// only where coll_tuned_use_dynamic_rules is on, and that cannot be written once MPI runs (4.1:
// MPI_T_ERR_CVAR_SET_NEVER). So it is switched on by the environment, where this library starts
// MPI; without a forced algorithm it changes nothing.
//
// MPI_T registers every component there is. Before MPI_Init that took 12 ms of two ranks' start
// here (of 234), for MPI_Init then finds them loaded; after it 205 ms, because it loads once more
// what MPI had dropped, and Debian's libpsm_infinipath and libpsm2 sleep while they are loaded. The
// same where the user keeps MPI from loading them (`--mca pml ob1`), so that choice is left as it
// is.
#include "collectives/mpi/tuned.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "collectives/mpi/runtime.h"

namespace millrace::collectives {
namespace {

constexpr char kRules[] = "OMPI_MCA_coll_tuned_use_dynamic_rules";
constexpr int kSegmentedRing = 5;  // of coll_tuned_allreduce_algorithm
constexpr int kSegmentBytes = 1 << 20;

bool UserHasChosen() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    for (const std::string_view prefix : {"OMPI_MCA_coll", "OMPI_MCA_pml", "OMPI_MCA_mtl"}) {
      if (std::string_view(*entry).starts_with(prefix)) return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<TunedControl> TunedControl::BeginBeforeMpi() {
  if (!kIsOpenMpi || UserHasChosen()) return nullptr;
  std::unique_ptr<TunedControl> control(new TunedControl);
  setenv(kRules, "1", /*overwrite=*/1);
  control->in_environment_ = true;
  int provided = MPI_THREAD_SINGLE;
  control->began_ = MPI_T_init_thread(MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS;
  if (!control->began_) return nullptr;
  return control;
}

TunedControl::~TunedControl() {
  MpiHasStarted();
  if (began_) MPI_T_finalize();  // nobody is left to hear of a failure
}

void TunedControl::MpiHasStarted() {
  if (in_environment_) unsetenv(kRules);
  in_environment_ = false;
}

ControlVariable::ControlVariable(const char* name) {
  int index = 0;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return;
  int name_size = 0, text_size = 0, verbosity = 0, bind = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  if (MPI_T_cvar_get_info(index, nullptr, &name_size, &verbosity, &type, nullptr, nullptr,
                          &text_size, &bind, &scope) != MPI_SUCCESS ||
      bind != MPI_T_BIND_NO_OBJECT || (type != MPI_INT && type != MPI_C_BOOL)) {
    return;
  }
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count) != MPI_SUCCESS) {
    handle_ = MPI_T_CVAR_HANDLE_NULL;
    return;
  }
  bool on = false;
  const bool read =
      count == 1 &&
      MPI_T_cvar_read(handle_, type == MPI_INT ? static_cast<void*>(&found_) : &on) == MPI_SUCCESS;
  if (type == MPI_C_BOOL) found_ = on ? 1 : 0;
  if (!read) MPI_T_cvar_handle_free(&handle_);
}

ControlVariable::~ControlVariable() {
  if (written_) MPI_T_cvar_write(handle_, &found_);
  if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle_);
}

bool ControlVariable::Set(int value) {
  if (handle_ == MPI_T_CVAR_HANDLE_NULL || MPI_T_cvar_write(handle_, &value) != MPI_SUCCESS)
    return false;
  written_ = true;
  return true;
}

ForcedRing::ForcedRing()
    : rules_("coll_tuned_use_dynamic_rules"),
      algorithm_("coll_tuned_allreduce_algorithm"),
      segment_("coll_tuned_allreduce_algorithm_segmentsize") {
  ok_ = rules_.Is(1) && algorithm_.Is(0) && algorithm_.Set(kSegmentedRing) &&
        segment_.Set(kSegmentBytes);
}

}  // namespace millrace::collectives
