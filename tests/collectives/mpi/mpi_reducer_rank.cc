// A rank of an MPI job leaves its gradient reducer in the middle of a step, in every layout of
// hosts: all others must hear who it was and why, and the job must go on. The program owns MPI and
// ends it in the end, for Millrace leaves an MPI alone in which an operation has failed. Exits 0
// when everything was as it should be.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/mpi/connect_mpi.h"
#include "collectives/peer_lost.h"
#include "collectives/reducer/make_reducer.h"
#include "tests/collectives/mpi/own_mpi.h"
#include "tests/collectives/reducer/reducer_hosts_conformance.h"

namespace millrace::collectives {
namespace {

struct Leaver {
  bool says_why = false;  // else it destroys its reducer
  bool exact = false;
};

// Buckets 0 and 2 are small messages, 1 one that waits for its receiver.
const std::vector<GradientSpec> kSmallAndLarge = {{"a", {600}}, {"b", {300007}}, {"c", {600}}};

// The last rank leaves in bucket 1 of step 1; `outcome` is what the others got.
absl::Status ExpectTheLastIsLost(const Communicator& comm, const Leaver& leaver,
                                 const absl::Status& outcome) {
  const std::optional<PeerLost> lost = PeerLostOf(outcome);
  const bool named = absl::IsUnavailable(outcome) && lost.has_value() &&
                     lost->rank == comm.size() - 1 && lost->step == 1 && lost->bucket == 1 &&
                     lost->phase == Phase::kBackward;
  const std::string text(ToStd(outcome.message()));
  const char* const why =
      leaver.says_why ? "it has failed: DATA_LOSS: a broken disk" : "it has destroyed its reducer";
  // Whoever passes it on has said where it waited: not once more.
  const bool once = text.find("gradient bucket") == text.rfind("gradient bucket");
  return named && once && text.ends_with(why) ? absl::OkStatus() : Fail(outcome.ToString());
}

absl::Status LeaveInMidStep(Communicator& comm, const Layout& layout, const Leaver& leaver) {
  PrivateReducerOptions options;
  options.bucket_bytes = options.edge_bucket_bytes = 600 * sizeof(float);
  options.host = layout[comm.rank()];
  options.exact = leaver.exact;
  MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakePlanned(comm, kSmallAndLarge, options));
  const std::vector<size_t> order = {0, 1, 2};
  MILLRACE_RETURN_IF_ERROR(CheckedStep(comm, *reducer, options, order, 0));
  if (comm.rank() == comm.size() - 1) {
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    if (leaver.says_why) reducer->Leave(absl::DataLossError("a broken disk"));
  } else {
    const absl::Status outcome = CheckedStep(comm, *reducer, options, order, 1);
    MILLRACE_RETURN_IF_ERROR(ExpectTheLastIsLost(comm, leaver, outcome));
  }
  reducer.reset();
  // The group above goes on.
  MILLRACE_RETURN_IF_ERROR(comm.Barrier());
  MILLRACE_ASSIGN_OR_RETURN(reducer, MakePlanned(comm, kSmallAndLarge, options));
  MILLRACE_RETURN_IF_ERROR(CheckedStep(comm, *reducer, options, order, 2));
  return comm.Barrier();
}

absl::Status Run() {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connected, ConnectMpi({}));
  Communicator& comm = *connected;
  for (const Layout& layout : kLayouts) {
    if (layout.size() != static_cast<size_t>(comm.size())) continue;
    for (const bool says_why : {false, true}) {
      for (const bool exact : {false, true}) {
        MILLRACE_RETURN_IF_ERROR(Annotate(LeaveInMidStep(comm, layout, {says_why, exact}),
                                          absl::StrCat("hosts ", absl::StrJoin(layout, ", "),
                                                       " says why ", says_why, " exact ", exact)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::collectives

int main() { return millrace::collectives::RunInOwnMpi(&millrace::collectives::Run) ? 0 : 1; }
