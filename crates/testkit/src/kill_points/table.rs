//! What came of the visits, and how it is shown.

use std::fmt::Write as _;

use super::cause::Cause;
use super::point::{Point, Role};

/// What came of one visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This start did not come by the point.
    NotReached,
    /// All as promised.
    Clean,
    /// What was not, each as one line.
    Found(Vec<String>),
}

/// One cause at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Where.
    pub point: Point,
    /// What.
    pub cause: Cause,
    /// And then.
    pub outcome: Outcome,
}

impl Visit {
    pub(super) fn add(&mut self, finding: String) {
        match &mut self.outcome {
            Outcome::Found(found) => found.push(finding),
            Outcome::Clean | Outcome::NotReached => self.outcome = Outcome::Found(vec![finding]),
        }
    }
}

/// A table for people: for each role its points, and for each cause how many of them were visited and how many of the
/// visits found something.
pub fn table(points: &[Point], visits: &[Visit]) -> String {
    let mut text = format!("{:<20}{:>7}", "role", "points");
    for cause in Cause::ALL {
        write!(text, "{cause:>16}").expect("to write to a string");
    }
    let roles = Role::ALL.into_iter().map(Some).chain([None]);
    for role in roles {
        let of = |point: &&Point| role.is_none_or(|role| point.role == role);
        let name = role.map_or_else(|| "all".to_owned(), |role| role.to_string());
        write!(text, "\n{name:<20}{:>7}", points.iter().filter(of).count()).expect("to write to a string");
        for cause in Cause::ALL {
            let here: Vec<&Visit> = visits.iter().filter(|visit| visit.cause == cause && of(&&visit.point)).collect();
            let visited = here.iter().filter(|visit| visit.outcome != Outcome::NotReached).count();
            let found = here.iter().filter(|visit| matches!(visit.outcome, Outcome::Found(_))).count();
            write!(text, "{:>16}", format!("{visited} / {found}")).expect("to write to a string");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_shows_its_points_and_what_was_visited_and_found() {
        let point = |index| Point { role: Role::Helper, index };
        let visit = |index, outcome| Visit { point: point(index), cause: Cause::Timeout, outcome };
        let found = Outcome::Found(vec!["x".into()]);
        let visits = [visit(0, Outcome::Clean), visit(1, found), visit(2, Outcome::NotReached)];
        let text = table(&[point(0), point(1), point(2)], &visits);
        let words =
            |name| text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(words("helper")[1..8], ["3", "0", "/", "0", "2", "/", "1"]);
        assert_eq!(words("all")[1..8], ["3", "0", "/", "0", "2", "/", "1"]);
        assert_eq!(words("inner stage")[2..6], ["0", "0", "/", "0"]);
    }
}
