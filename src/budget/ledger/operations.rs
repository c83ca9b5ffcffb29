//! Reserve, commit, release, extend, event, decide, expire, fund.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::{
    Answer, Book,
    balance::{Balance, Status},
    error::{Code, Error, Refusal},
    overage::{Overage, charge},
    reservation::{Reservation, State},
};
use crate::budget::{Amount, Subject, Unit};

/// How often a reservation may be extended.
const EXTENSIONS_MAX: u32 = 10;
/// How long the answer to a settled operation is kept: 30 days.
const SETTLED_KEPT_MS: u64 = 30 * 24 * 3600 * 1000;
/// How long the answer to a reservation is kept at least: a day.
const RESERVED_KEPT_MS: u64 = 24 * 3600 * 1000;
/// How many reservations one sweep ends.
const SWEEP_MAX: usize = 1000;

/// What is put aside, and on whose account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The same for each try of the same operation, another for each other.
    pub idempotency_key: String,
    /// On whose account.
    pub subject: Subject,
    /// How much at most.
    pub estimate: Amount,
    /// How long it stands unless it is extended, in milliseconds.
    pub ttl_ms: u64,
    /// How long after that it may still be settled, in milliseconds.
    pub grace_period_ms: u64,
    /// What becomes of a higher cost.
    pub overage_policy: Overage,
}

/// A cost without a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// As in [`Request`].
    pub idempotency_key: String,
    /// On whose account.
    pub subject: Subject,
    /// What it cost.
    pub actual: Amount,
    /// What becomes of what is not there.
    pub overage_policy: Overage,
}

/// What was put aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The id of the reservation.
    pub reservation_id: String,
    /// How much.
    pub reserved: Amount,
    /// The scopes that it is put aside in.
    pub affected_scopes: Vec<String>,
    /// When it ends, in milliseconds since 1970.
    pub expires_at_ms: u64,
}

/// What was charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// So much.
    pub charged: Amount,
    /// What was given back; absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<Amount>,
}

/// What was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// So much.
    pub released: Amount,
}

/// When a reservation ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// In milliseconds since 1970.
    pub expires_at_ms: u64,
}

/// What was charged without a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// So much.
    pub charged: Amount,
}

/// The operations, on one book at one moment.
pub struct Ledger<'a, B> {
    /// What is read and written.
    pub book: &'a mut B,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
}

impl<B: Book> Ledger<'_, B> {
    /// Puts the estimate aside in every scope of the subject that has a budget, or in none.
    pub fn reserve(&mut self, request: &Request) -> Result<Reserved, Error> {
        let place = place("reserve", &request.subject, &request.idempotency_key);
        self.once(&place, request, |ledger| {
            let scopes = ledger.scopes(request)?;
            let id = format!("rsv_{}", hex(&Sha256::digest(place.as_bytes())));
            let expires_ms = ledger.now_ms.saturating_add(request.ttl_ms);
            for (scope, balance) in &scopes {
                let after = Balance { reserved: balance.reserved + request.estimate.amount, ..*balance };
                ledger.book.put_balance(scope, request.estimate.unit, after)?;
            }
            let affected: Vec<String> = scopes.into_iter().map(|(scope, _)| scope).collect();
            ledger.book.put_reservation(Reservation {
                id: id.clone(),
                scopes: affected.clone(),
                estimate: request.estimate,
                overage: request.overage_policy,
                expires_ms,
                grace_ms: request.grace_period_ms,
                extensions: 0,
                state: State::Active,
            })?;
            let kept = RESERVED_KEPT_MS.max(request.ttl_ms.saturating_add(request.grace_period_ms));
            Ok((Reserved { reservation_id: id, reserved: request.estimate, affected_scopes: affected, expires_at_ms: expires_ms }, kept))
        })
    }

    /// Whether [`Self::reserve`] would succeed now; writes nothing.
    pub fn decide(&self, request: &Request) -> Result<(), Error> {
        self.scopes(request).map(drop)
    }

    /// Charges what it cost, and gives back what was put aside beyond that.
    pub fn commit(&mut self, id: &str, key: &str, actual: Amount) -> Result<Committed, Error> {
        self.once(&format!("commit/{id}/{key}"), &actual, |ledger| {
            let mut reservation = ledger.standing(id)?;
            let estimate = reservation.estimate;
            if actual.unit != estimate.unit {
                return Err(Refusal::new(Code::UnitMismatch, "What was used is counted in another unit than what was reserved.").into());
            }
            let scopes = ledger.balances(&reservation.scopes, estimate.unit)?;
            let charge = charge(&scopes, estimate.amount, actual.amount, reservation.overage)?;
            ledger.write(&scopes, charge.balances, estimate.unit)?;
            reservation.state = State::Committed;
            ledger.book.put_reservation(reservation)?;
            let left = estimate.amount.saturating_sub(actual.amount);
            let released = (left > 0).then_some(Amount::new(estimate.unit, left));
            Ok((Committed { charged: Amount::new(estimate.unit, charge.charged), released }, SETTLED_KEPT_MS))
        })
    }

    /// Gives back all of it: only for what was not done.
    pub fn release(&mut self, id: &str, key: &str) -> Result<Released, Error> {
        self.once(&format!("release/{id}/{key}"), &id, |ledger| {
            let reservation = ledger.standing(id)?;
            let released = reservation.estimate;
            ledger.give_back(reservation, State::Released)?;
            Ok((Released { released }, SETTLED_KEPT_MS))
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
            Ok((Extended { expires_at_ms }, expires_at_ms.saturating_sub(ledger.now_ms)))
        })
    }

    /// Charges a cost that nothing was put aside for. Debt and limits that were passed do not stop it: it has happened.
    pub fn event(&mut self, event: &Event) -> Result<Applied, Error> {
        let place = place("event", &event.subject, &event.idempotency_key);
        self.once(&place, event, |ledger| {
            let scopes = ledger.budgeted(&event.subject, event.actual.unit)?;
            if let Some((scope, code)) = scopes.iter().find_map(|(scope, balance)| Some((scope, balance.is_shut()?))) {
                return Err(Refusal::at(scope, code).into());
            }
            let charge = charge(&scopes, 0, event.actual.amount, event.overage_policy)?;
            ledger.write(&scopes, charge.balances, event.actual.unit)?;
            Ok((Applied { charged: Amount::new(event.actual.unit, charge.charged) }, SETTLED_KEPT_MS))
        })
    }

    /// Gives back what was put aside and never settled in time. Returns how many reservations that were.
    pub fn expire(&mut self) -> Result<usize, Error> {
        let overdue = self.book.overdue(self.now_ms, SWEEP_MAX)?;
        let count = overdue.len();
        for reservation in overdue {
            self.give_back(reservation, State::Expired)?;
        }
        Ok(count)
    }

    /// Makes a budget of `scope` if there is none, and puts `amount` into it. What it owes is paid first; it is over its limit no more.
    pub fn fund(&mut self, scope: &str, amount: Amount) -> Result<Balance, Error> {
        let mut balance = self.book.balance(scope, amount.unit)?.unwrap_or_default();
        let allocated = balance.allocated.checked_add(amount.amount).filter(|sum| *sum <= crate::budget::amount::AMOUNT_MAX);
        balance.allocated = allocated.ok_or_else(|| Refusal::new(Code::InvalidRequest, "The budget would be too large."))?;
        let paid = balance.debt.min(amount.amount);
        balance.debt -= paid;
        balance.spent += paid;
        balance.is_over_limit = false;
        self.book.put_balance(scope, amount.unit, balance)?;
        Ok(balance)
    }

    /// Changes whether the budget of `scope` may be used.
    pub fn set_status(&mut self, scope: &str, unit: Unit, status: Status) -> Result<Balance, Error> {
        let known = self.book.balance(scope, unit)?;
        let balance = known.ok_or_else(|| Refusal::new(Code::NotFound, format!("There is no budget of {scope} in {}.", unit.as_str())))?;
        let balance = Balance { status, ..balance };
        self.book.put_balance(scope, unit, balance)?;
        Ok(balance)
    }

    /// The scopes of the request and what is in them, if all of them have room for the estimate.
    fn scopes(&self, request: &Request) -> Result<Vec<(String, Balance)>, Error> {
        let scopes = self.budgeted(&request.subject, request.estimate.unit)?;
        let refusal = scopes.iter().find_map(|(scope, balance)| Some(Refusal::at(scope, balance.refuses(request.estimate.amount)?)));
        refusal.map_or(Ok(scopes), |refusal| Err(refusal.into()))
    }

    /// The scopes of `subject` that have a budget in `unit`.
    fn budgeted(&self, subject: &Subject, unit: Unit) -> Result<Vec<(String, Balance)>, Error> {
        let (mut found, mut other) = (Vec::new(), None);
        for scope in subject.scopes() {
            match self.book.balance(&scope, unit)? {
                Some(balance) => found.push((scope, balance)),
                None if other.is_none() && self.counts_otherwise(&scope, unit)? => other = Some(scope),
                None => {}
            }
        }
        match (found.is_empty(), other) {
            (false, _) => Ok(found),
            (true, Some(scope)) => Err(Refusal::at(&scope, Code::UnitMismatch).into()),
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
        let Amount { unit, amount } = reservation.estimate;
        for (scope, balance) in self.balances(&reservation.scopes, unit)? {
            self.book.put_balance(&scope, unit, Balance { reserved: balance.reserved.saturating_sub(amount), ..balance })?;
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

    /// Does `act` unless it was done under this key: then the same answer is given again. `act` says how long its answer is kept.
    fn once<Q: Serialize, A: Serialize + DeserializeOwned>(
        &mut self,
        place: &str,
        asked: &Q,
        act: impl FnOnce(&mut Self) -> Result<(A, u64), Error>,
    ) -> Result<A, Error> {
        // Plain structs always serialise.
        let asked = hex(&Sha256::digest(serde_json::to_vec(asked).unwrap_or_default()));
        if let Some(known) = self.book.answer(place)?.filter(|known| self.now_ms <= known.until_ms) {
            if known.asked != asked {
                return Err(Refusal::new(Code::IdempotencyMismatch, "The same key was used for something else.").into());
            }
            return serde_json::from_str(&known.json).map_err(|error| super::StoreError(error.to_string()).into());
        }
        let (answer, kept_ms) = act(self)?;
        let json = serde_json::to_string(&answer).unwrap_or_default();
        self.book.put_answer(place, Answer { asked, json, until_ms: self.now_ms.saturating_add(kept_ms) })?;
        Ok(answer)
    }
}

/// Where the answer to an operation is kept. Keys of several tenants do not meet.
fn place(operation: &str, subject: &Subject, key: &str) -> String {
    format!("{operation}/{}/{key}", subject.tenant.as_deref().unwrap_or_default().to_lowercase())
}

fn expired(id: &str) -> Refusal {
    Refusal::new(Code::ReservationExpired, format!("The time of the reservation {id} is over."))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
