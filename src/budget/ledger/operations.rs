//! Reserve, commit, release, extend, event, decide, expire.

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::{
    Answer, Book,
    balance::Balance,
    error::{Code, Error, Refusal, StoreError},
    overage::charge,
    request::{Applied, Caps, Committed, Entry, Event, Extended, Quota, Released, Request, Reserved},
    reservation::{Hold, Reservation, State},
};
use crate::budget::{Amount, Subject, Unit};

/// How often a reservation may be extended.
pub(in crate::budget) const EXTENSIONS_MAX: u32 = 10;
/// How long an answer is kept, so that it can be given again, and what was settled: a day. Who asks a ledger of its own process ends with
/// it; one that outlives who asks keeps some longer.
pub(in crate::budget) const KEPT_MS: u64 = 24 * 3600 * 1000;
/// How many reservations, and how many budgets, one sweep ends.
pub(in crate::budget) const SWEEP_MAX: usize = 1000;

/// The operations, on one book at one moment.
pub struct Ledger<'a, B> {
    /// What is read and written.
    pub book: &'a mut B,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
}

/// What one unit is taken from.
struct Line {
    amount: Amount,
    scopes: Vec<(String, Balance)>,
}

/// What budgets are looked for.
struct Wanted<'a> {
    subject: &'a Subject,
    amounts: &'a [Amount],
    quotas: &'a [Quota],
    opens: bool,
}

impl<B: Book> Ledger<'_, B> {
    /// Puts the estimates aside in every scope of the subject that has a budget and in every quota, or in none.
    pub fn reserve(&mut self, request: &Request) -> Result<Reserved, Error> {
        let place = place("reserve", &request.subject, &request.idempotency_key);
        self.once(&place, request, |ledger| {
            let lines = ledger.room(request)?;
            let id = reservation_id(&place);
            let expires_ms = ledger.now_ms.saturating_add(request.ttl_ms);
            for Line { amount, scopes } in &lines {
                for (scope, balance) in scopes {
                    let after = Balance { reserved: balance.reserved.saturating_add(amount.amount), ..balance.clone() };
                    ledger.book.put_balance(scope, amount.unit, after)?;
                }
            }
            let caps = caps(&request.subject, &lines);
            let mut affected_scopes: Vec<String> = Vec::new();
            for (scope, _) in lines.iter().flat_map(|line| &line.scopes) {
                if !affected_scopes.contains(scope) {
                    affected_scopes.push(scope.clone());
                }
            }
            let names = |scopes: Vec<(String, Balance)>| scopes.into_iter().map(|(scope, _)| scope).collect();
            ledger.book.put_reservation(Reservation {
                id: id.clone(),
                subject: request.subject.clone(),
                action: request.action.clone(),
                holds: lines.into_iter().map(|line| Hold { estimate: line.amount, scopes: names(line.scopes) }).collect(),
                overage: request.overage_policy,
                expires_ms,
                grace_ms: request.grace_period_ms,
                extensions: 0,
                state: State::Active,
            })?;
            Ok(Reserved { reservation_id: id, reserved: request.estimates.clone(), affected_scopes, expires_at_ms: expires_ms, caps })
        })
    }

    /// The caps that [`Self::reserve`] would answer with now; fails where it would. Writes nothing.
    pub fn decide(&self, request: &Request) -> Result<Option<Caps>, Error> {
        Ok(caps(&request.subject, &self.room(request)?))
    }

    /// Charges what it cost, and gives back what was put aside beyond that. A unit that `actuals` does not tell costs what was estimated.
    pub fn commit(&mut self, id: &str, key: &str, actuals: &[Amount]) -> Result<Committed, Error> {
        self.once(&format!("commit/{id}/{key}"), &actuals, |ledger| {
            let mut reservation = ledger.standing(id)?;
            if actuals.iter().any(|actual| !reservation.holds.iter().any(|hold| hold.estimate.unit == actual.unit)) {
                return Err(Refusal::new(Code::UnitMismatch, "What was used is counted in another unit than what was reserved.").into());
            }
            let (mut cost, mut charged, mut released, mut writes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for Hold { estimate, scopes } in &reservation.holds {
                let unit = estimate.unit;
                let actual = actuals.iter().find(|actual| actual.unit == unit).unwrap_or(estimate).amount;
                let scopes = ledger.balances(scopes, unit)?;
                let charge = charge(&scopes, *estimate, actual, reservation.overage)?;
                cost.push(Amount::new(unit, actual));
                charged.push(Amount::new(unit, charge.charged));
                released.extend(estimate.amount.checked_sub(actual).filter(|left| *left > 0).map(|left| Amount::new(unit, left)));
                writes.push((unit, scopes, charge.balances));
            }
            for (unit, scopes, after) in writes {
                ledger.write(&scopes, after, unit)?;
            }
            let (subject, action) = (reservation.subject.clone(), reservation.action.clone());
            ledger.book.put_entry(Entry { at_ms: ledger.now_ms, subject, action, cost, charged: charged.clone() })?;
            reservation.state = State::Committed;
            ledger.book.put_reservation(reservation)?;
            Ok(Committed { charged, released })
        })
    }

    /// Gives back all of it: only for what was not done.
    pub fn release(&mut self, id: &str, key: &str) -> Result<Released, Error> {
        self.once(&format!("release/{id}/{key}"), &id, |ledger| {
            let reservation = ledger.standing(id)?;
            let released = reservation.holds.iter().map(|hold| hold.estimate).collect();
            ledger.give_back(reservation, State::Released)?;
            Ok(Released { released })
        })
    }

    /// Lets it stand `by_ms` longer than it does.
    pub fn extend(&mut self, id: &str, key: &str, by_ms: u64) -> Result<Extended, Error> {
        self.once(&format!("extend/{id}/{key}"), &by_ms, |ledger| {
            let mut reservation = ledger.active(id)?;
            if ledger.now_ms > reservation.expires_ms {
                return Err(expired(id).into());
            }
            if reservation.extensions >= EXTENSIONS_MAX {
                return Err(Refusal::new(Code::MaxExtensionsExceeded, format!("It was extended {EXTENSIONS_MAX} times.")).into());
            }
            reservation.extensions += 1;
            reservation.expires_ms = reservation.expires_ms.saturating_add(by_ms);
            let expires_at_ms = reservation.expires_ms;
            ledger.book.put_reservation(reservation)?;
            Ok(Extended { expires_at_ms })
        })
    }

    /// Charges a cost that nothing was put aside for. Debt and limits that were passed do not stop it: it has happened.
    pub fn event(&mut self, event: &Event) -> Result<Applied, Error> {
        let place = place("event", &event.subject, &event.idempotency_key);
        self.once(&place, event, |ledger| {
            let Event { subject, action, actuals, quotas, opens, overage_policy, .. } = event;
            let lines = ledger.lines(&Wanted { subject, amounts: actuals, quotas, opens: *opens })?;
            for Line { amount, scopes } in &lines {
                if let Some(refusal) = scopes.iter().find_map(|(scope, balance)| Some(Refusal::at(scope, amount.unit, balance.is_shut()?)))
                {
                    return Err(refusal.into());
                }
            }
            let (mut charged, mut writes) = (Vec::new(), Vec::new());
            for Line { amount, scopes } in lines {
                let charge = charge(&scopes, Amount::new(amount.unit, 0), amount.amount, *overage_policy)?;
                charged.push(Amount::new(amount.unit, charge.charged));
                writes.push((amount.unit, scopes, charge.balances));
            }
            for (unit, scopes, after) in writes {
                ledger.write(&scopes, after, unit)?;
            }
            let (subject, action, cost) = (subject.clone(), action.clone(), actuals.clone());
            ledger.book.put_entry(Entry { at_ms: ledger.now_ms, subject, action, cost, charged: charged.clone() })?;
            Ok(Applied { charged })
        })
    }

    /// Gives back what was put aside and never settled in time, and forgets the quotas whose time is over. Returns how many reservations
    /// that were.
    pub fn expire(&mut self) -> Result<usize, Error> {
        let overdue = self.book.overdue(self.now_ms, SWEEP_MAX)?;
        let count = overdue.len();
        for reservation in overdue {
            self.give_back(reservation, State::Expired)?;
        }
        for (scope, unit) in self.book.ended(self.now_ms, SWEEP_MAX)? {
            self.book.remove_balance(&scope, unit)?;
        }
        Ok(count)
    }

    /// What the request is taken from, if all of it has room for the estimates.
    fn room(&self, request: &Request) -> Result<Vec<Line>, Error> {
        let Request { subject, estimates, quotas, opens, .. } = request;
        let lines = self.lines(&Wanted { subject, amounts: estimates, quotas, opens: *opens })?;
        for Line { amount, scopes } in &lines {
            if let Some(refusal) =
                scopes.iter().find_map(|(scope, balance)| Some(Refusal::at(scope, amount.unit, balance.refuses(amount.amount)?)))
            {
                return Err(refusal.into());
            }
        }
        Ok(lines)
    }

    /// The budgets that are wanted, as they are or as they are made.
    fn lines(&self, wanted: &Wanted<'_>) -> Result<Vec<Line>, Error> {
        wanted.subject.check()?;
        wanted.amounts.iter().map(|amount| Ok(Line { amount: *amount, scopes: self.line(wanted, amount.unit)? })).collect()
    }

    fn line(&self, wanted: &Wanted<'_>, unit: Unit) -> Result<Vec<(String, Balance)>, Error> {
        let (mut found, mut other) = (Vec::new(), None);
        for scope in wanted.subject.scopes() {
            match self.book.balance(&scope, unit)? {
                Some(balance) => found.push((scope, balance)),
                None if wanted.opens => found.push((scope, Balance::unlimited())),
                None if other.is_none() && self.counts_otherwise(&scope, unit)? => other = Some(scope),
                None => {}
            }
        }
        for quota in wanted.quotas.iter().filter(|quota| quota.unit == unit) {
            let balance = self.book.balance(&quota.scope, unit)?.unwrap_or_default();
            let until_ms = Some(balance.until_ms.unwrap_or_default().max(quota.until_ms));
            // One that was raised is over its limit no more.
            let is_over_limit = balance.is_over_limit && quota.allocated <= balance.allocated;
            found.push((quota.scope.clone(), Balance { allocated: quota.allocated, is_over_limit, until_ms, ..balance }));
        }
        match (found.is_empty(), other) {
            (false, _) => Ok(found),
            (true, Some(scope)) => Err(Refusal::at(&scope, unit, Code::UnitMismatch).into()),
            (true, None) => Err(Refusal::new(Code::NotFound, "There is no budget for this.").into()),
        }
    }

    fn counts_otherwise(&self, scope: &str, unit: Unit) -> Result<bool, Error> {
        for other in Unit::ALL.into_iter().filter(|other| *other != unit) {
            if self.book.balance(scope, other)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn balances(&self, scopes: &[String], unit: Unit) -> Result<Vec<(String, Balance)>, Error> {
        let mut balances = Vec::with_capacity(scopes.len());
        for scope in scopes {
            balances.push((scope.clone(), self.book.balance(scope, unit)?.unwrap_or_default()));
        }
        Ok(balances)
    }

    fn write(&mut self, scopes: &[(String, Balance)], after: Vec<Balance>, unit: Unit) -> Result<(), Error> {
        for ((scope, _), balance) in scopes.iter().zip(after) {
            self.book.put_balance(scope, unit, balance)?;
        }
        Ok(())
    }

    fn give_back(&mut self, mut reservation: Reservation, state: State) -> Result<(), Error> {
        for Hold { estimate: Amount { unit, amount }, scopes } in &reservation.holds {
            for (scope, balance) in self.balances(scopes, *unit)? {
                self.book.put_balance(&scope, *unit, Balance { reserved: balance.reserved.saturating_sub(*amount), ..balance })?;
            }
        }
        reservation.state = state;
        Ok(self.book.put_reservation(reservation)?)
    }

    /// The reservation, if it was not settled.
    fn active(&self, id: &str) -> Result<Reservation, Error> {
        let known = self.book.reservation(id)?;
        let reservation = known.ok_or_else(|| Refusal::new(Code::NotFound, format!("There is no reservation {id}.")))?;
        match reservation.state {
            State::Active => Ok(reservation),
            State::Expired => Err(expired(id).into()),
            State::Committed | State::Released => {
                Err(Refusal::new(Code::ReservationFinalized, format!("The reservation {id} is settled.")).into())
            }
        }
    }

    /// The reservation, if it may be settled now.
    fn standing(&self, id: &str) -> Result<Reservation, Error> {
        let reservation = self.active(id)?;
        if self.now_ms > reservation.settle_by_ms() { Err(expired(id).into()) } else { Ok(reservation) }
    }

    /// Does `act` unless it was done under this key: then the same answer is given again.
    pub(super) fn once<Q: Serialize, A: Serialize + DeserializeOwned>(
        &mut self,
        place: &str,
        asked: &Q,
        act: impl FnOnce(&mut Self) -> Result<A, Error>,
    ) -> Result<A, Error> {
        let asked = hash(asked);
        if let Some(known) = self.book.answer(place)?.filter(|known| self.now_ms <= known.until_ms) {
            if known.asked != asked {
                return Err(Refusal::new(Code::IdempotencyMismatch, "The same key was used for something else.").into());
            }
            return serde_json::from_str(&known.json).map_err(|error| StoreError(error.to_string()).into());
        }
        let answer = act(self)?;
        let json = serde_json::to_string(&answer).map_err(|error| StoreError(error.to_string()))?;
        self.book.put_answer(place, Answer { asked, json, until_ms: self.now_ms.saturating_add(KEPT_MS) })?;
        Ok(answer)
    }
}

/// What the deepest scope of `subject` that says so asks to be kept to.
fn caps(subject: &Subject, lines: &[Line]) -> Option<Caps> {
    let at = |scope: String| {
        let has_it = |line: &Line| line.scopes.iter().find(|(known, _)| *known == scope)?.1.caps.clone();
        lines.iter().find_map(has_it)
    };
    subject.scopes().into_iter().rev().find_map(at).map(|caps| (*caps).clone())
}

/// Where the answer to an operation is kept. Keys of several tenants do not meet.
pub(in crate::budget) fn place(operation: &str, subject: &Subject, key: &str) -> String {
    format!("{operation}/{}/{key}", subject.tenant.as_deref().unwrap_or_default().to_lowercase())
}

/// The id of the reservation whose answer is kept at `place`.
pub(in crate::budget) fn reservation_id(place: &str) -> String {
    format!("rsv_{}", hex(&Sha256::digest(place.as_bytes())))
}

/// A hash of what is asked for: plain structs always serialise.
pub(in crate::budget) fn hash(asked: &impl Serialize) -> String {
    hex(&Sha256::digest(serde_json::to_vec(asked).unwrap_or_default()))
}

fn expired(id: &str) -> Refusal {
    Refusal::new(Code::ReservationExpired, format!("The time of the reservation {id} is over."))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).map_or('0', |digit| char::from(*digit));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
