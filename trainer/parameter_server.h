#ifndef MILLRACE_TRAINER_PARAMETER_SERVER_H_
#define MILLRACE_TRAINER_PARAMETER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/message_server.h"
#include "trainer/train.h"

// Training on parameter servers: servers hold the weights and the optimizer's state, each those of
// its share of the parameters; workers compute gradients. Workers may be lost and come again, so
// these processes are no group of ranks: each worker has a TCP connection to each server.

namespace millrace::trainer {

// True if the job, with the options' fields, trains on parameter servers.
//   NOT_FOUND, INVALID_ARGUMENT  the job's file is missing, or wrong
absl::StatusOr<bool> UsesParameterServers(const TrainOptions& options);

// The place of this process in a training on servers.
struct ServerTask {
  int workers = 1;                   // number of workers; worker 0 is the chief
  std::vector<std::string> servers;  // where each listens, for MessageConnection::Connect
  bool is_server = false;            // true if this process is a server
  int index = 0;                     // of this process among the workers, or among the servers
  int local_ranks = 1;               // processes that share the cores of this host
  // A server that listens already. Null: TrainOnServers listens at its place.
  std::unique_ptr<collectives::MessageServer> listening;
};

// Makes the last ranks of `communicator` servers, as many as the job says, and the others workers.
// They then need the communicator no more. Collective.
//   INVALID_ARGUMENT  the job is wrong, or there are too few ranks
//   other             a collective call failed, or a server cannot listen
absl::StatusOr<ServerTask> SplitRanks(const TrainOptions& options,
                                      collectives::Communicator& communicator);

// Trains as worker or server. Blocks until the job is done or stopped, or, on a worker other than
// the chief that is to stop, until it has left. Only the chief prints and calls `progress`; the
// outcomes of the others have no numbers. An exception becomes a status. Outcomes as Train's, and
//   UNAVAILABLE  a server is lost (collectives::PeerLostOf; its rank counts the servers after the
//                workers), the chief is lost, or this worker was given up
absl::StatusOr<TrainOutcome> TrainOnServers(const TrainOptions& options, ServerTask task);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_PARAMETER_SERVER_H_
