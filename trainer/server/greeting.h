#ifndef MILLRACE_TRAINER_SERVER_GREETING_H_
#define MILLRACE_TRAINER_SERVER_GREETING_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "collectives/message_connection.h"
#include "trainer/server/cluster.h"
#include "trainer/server/protocol.h"
#include "trainer/train.h"

namespace millrace::trainer {

// One process that comes to a server. It borrows.
struct Greeting {
  const TrainOptions& options;
  const ServerCluster& cluster;
  int server = 0;
  wire::Hello hello;
  uint64_t payload_bytes = 0;  // the largest payload that the server sends
};

struct Greeted {
  std::unique_ptr<collectives::MessageConnection> connection;
  wire::Header welcome;
};

// Connects to a server and waits for its welcome, again and again while the server does not listen
// yet, or still has an older process of the same number, for TrainOptions::start_timeout at most
// (0: for ever).
//   CANCELLED          TrainOptions::stop was set
//   DEADLINE_EXCEEDED  the server has not welcomed this process in time; the text says why
//   other              the server has refused it, or has told the error that ends the training
absl::StatusOr<Greeted> Greet(const Greeting& greeting);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_GREETING_H_
