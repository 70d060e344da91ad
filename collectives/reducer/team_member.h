#ifndef MILLRACE_COLLECTIVES_REDUCER_TEAM_MEMBER_H_
#define MILLRACE_COLLECTIVES_REDUCER_TEAM_MEMBER_H_

#include <algorithm>

#include "collectives/gradient_reducer.h"

namespace millrace::collectives {

// One reducer of a team. Thread-compatible, as the team.
class TeamMember {
 public:
  explicit TeamMember(ReducerTeam* team) : team_(team) {
    if (team_ != nullptr) team_->members_.push_back(this);
  }
  virtual ~TeamMember() {
    if (team_ != nullptr) std::erase(team_->members_, this);
  }
  TeamMember(const TeamMember&) = delete;
  TeamMember& operator=(const TeamMember&) = delete;

 protected:
  bool has_others() const { return team_ != nullptr && team_->members_.size() > 1; }
  // Lets the other members do the work that needs no wait.
  void AdvanceOthers() {
    if (team_ == nullptr) return;
    for (TeamMember* const member : team_->members_) {
      if (member != this) member->Advance();
    }
  }

 private:
  virtual void Advance() = 0;

  ReducerTeam* const team_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_TEAM_MEMBER_H_
