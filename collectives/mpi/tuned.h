#ifndef MILLRACE_COLLECTIVES_MPI_TUNED_H_
#define MILLRACE_COLLECTIVES_MPI_TUNED_H_

#include <mpi.h>

#include <memory>

namespace millrace::collectives {

// Control of Open MPI's component `tuned`, which makes its collective calls on hosts. Lives while
// MPI runs. Thread-compatible: on MPI's thread.
class TunedControl {
 public:
  // Before MPI starts, on all ranks. Null where this MPI is another one or has no such control, and
  // where the user has chosen components or algorithms (`OMPI_MCA_coll...`, `_pml`, `_mtl`).
  static std::unique_ptr<TunedControl> BeginBeforeMpi();
  ~TunedControl();
  TunedControl(const TunedControl&) = delete;
  TunedControl& operator=(const TunedControl&) = delete;

  // MPI has read its environment: what was set there is taken back, lest it reach other programs.
  void MpiHasStarted();

 private:
  TunedControl() = default;
  bool began_ = false;
  bool in_environment_ = false;
};

// A variable of MPI_T that holds an int, or a bool to be read. Its value is put back at the end.
class ControlVariable {
 public:
  explicit ControlVariable(const char* name);
  ~ControlVariable();
  ControlVariable(const ControlVariable&) = delete;
  ControlVariable& operator=(const ControlVariable&) = delete;

  bool Is(int value) const { return handle_ != MPI_T_CVAR_HANDLE_NULL && found_ == value; }
  // False where this MPI has no such variable, or lets nobody write it now.
  bool Set(int value);

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  int found_ = 0;
  bool written_ = false;
};

// While it lives, communicators that are made sum by the segmented ring, in segments of 1 MiB.
class ForcedRing {
 public:
  ForcedRing();
  // False: they do as always, because nobody began the control, or a file of the user's has chosen.
  bool ok() const { return ok_; }

 private:
  ControlVariable rules_;
  ControlVariable algorithm_;
  ControlVariable segment_;
  bool ok_ = false;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_TUNED_H_
