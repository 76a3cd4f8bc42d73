"""Who belongs to a team, and who is let in."""

import shutil
import statistics
import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import goalward as gw
from goalward.errors import BadParameter, NotAStudy
from goalward.studio import team as membership
from goalward.studio import team as passphrase
from goalward.studio.team import ROLES, Team

WORDS = "four words of mine"


class Clock:
    now = 1.8e9

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """Hashes that cost little; one test measures the real ones."""
    monkeypatch.setattr(passphrase, "COST", 2**4)


@pytest.fixture
def team(tmp_path, clock):
    made = Team.create(tmp_path / "team.db", lasts=3600, clock=clock)
    made.join(made.invite("Ann", "owner"), WORDS)
    yield made
    made.close()


@pytest.mark.attack("links used again, or guessed")
def test_a_link_makes_one_passphrase_and_is_used_up(team):
    link = team.invite("Bo", "annotator", by="Ann")
    assert team.members.person("bo") is None
    with pytest.raises(BadParameter, match="9 characters"):
        team.join(link, "too short")
    assert team.join(link, WORDS) == "Bo"
    assert team.members.person("BO").role() == "annotator"
    with pytest.raises(BadParameter, match="used already"):
        team.join(link, "another passphrase")
    assert team.sign_in("bo", "another passphrase") is None
    assert team.signed_in(team.sign_in("bo", WORDS)).name == "Bo"


@pytest.mark.attack("sessions that are over")
def test_links_and_sessions_end_with_their_time(team, clock, tried):
    link, session = team.invite("Bo", "annotator", days=1), team.sign_in("Ann", WORDS)
    clock.now += 3599
    assert team.signed_in(session).name == "Ann"
    clock.now += 1
    assert team.signed_in(session) is None
    clock.now += 86400
    with pytest.raises(BadParameter, match="too old"):
        team.join(link, WORDS)
    assert not team.members.sessions_of()
    # What is over is not kept in memory either.
    team.sign_in("Ann", WORDS)
    assert len(team.members.sessions) == 1
    tried(2)


def test_every_sign_in_is_another_session_and_ends_the_one_before(team):
    first = team.sign_in("Ann", WORDS, "10.0.0.7, Firefox")
    second = team.sign_in("Ann", WORDS, before=first)
    assert first != second
    assert team.signed_in(first) is None
    assert team.signed_in(second).name == "Ann"
    team.sign_out(second)
    assert team.signed_in(second) is None


def test_sessions_are_seen_and_revoked(team, clock):
    mine, other = team.sign_in("Ann", WORDS), team.sign_in("Ann", WORDS, "phone")
    team.join(team.invite("Bo", "annotator"), WORDS)
    bos = team.sign_in("Bo", WORDS)
    found = {s.place: s.session for s in team.members.sessions_of("ann")}
    with pytest.raises(BadParameter, match="no session"):
        team.revoke(found["phone"], by="Bo", name="Bo")
    for nothing in ("", found["phone"][:7], "0" * 64, "%"):
        with pytest.raises(BadParameter, match="no session"):
            team.revoke(nothing, by="Ann")
    team.revoke(found["phone"][:12], by="Ann")
    assert team.signed_in(other) is None
    assert team.signed_in(mine)
    (session,) = team.members.sessions_of("Bo")
    team.revoke(session.session, by="Ann")
    assert team.signed_in(bos) is None


@pytest.mark.attack("sessions that are over")
def test_another_passphrase_and_a_removal_end_all_sessions(team, tried):
    old = team.sign_in("Ann", WORDS)
    team.join(team.invite("ann"), "another passphrase")
    assert team.signed_in(old) is None
    assert team.members.person("Ann").role() == "owner"
    team.join(team.invite("Bo", "owner"), WORDS)
    session, link = team.sign_in("Bo", WORDS), team.invite("Bo")
    team.remove("bo", by="Ann")
    assert team.signed_in(session) is None
    assert team.sign_in("Bo", WORDS) is None
    with pytest.raises(BadParameter, match="used already"):
        team.join(link, WORDS)
    with pytest.raises(BadParameter, match="nobody called 'Bo'"):
        team.invite("Bo")
    tried(2)


def test_a_link_for_somebody_new_never_opens_an_account_that_is_there(team):
    for name in ("Ann", "ANN", "ann "):
        with pytest.raises(BadParameter, match="belongs to the team already"):
            team.invite(name, "annotator")
    team.set_role("Bo", "reviewer")
    # Bo has no passphrase yet, and gets one.
    team.join(team.invite("Bo", "annotator"), WORDS)
    # Two links for a new name: the one used later is that of somebody who forgot.
    first, second = team.invite("Cleo", "annotator"), team.invite("Cleo", "owner")
    team.join(first, WORDS)
    with pytest.raises(BadParameter, match="belongs to the team already"):
        team.join(second, "another passphrase")
    assert team.members.person("Cleo").role() == "annotator"


def test_there_is_always_an_owner(team):
    for deed in (lambda: team.remove("Ann"), lambda: team.set_role("Ann", "reviewer")):
        with pytest.raises(BadParameter, match="the only owner"):
            deed()
    team.set_role("Bo", "owner")
    team.set_role("Ann", "reviewer")
    assert team.members.person("Ann").role() == "reviewer"


def test_a_role_may_be_of_one_study(team):
    team.join(team.invite("Bo", "annotator", study="4f"), WORDS)
    bo = team.members.person("Bo")
    assert (bo.role("4f"), bo.role("00"), bo.role()) == ("annotator", None, None)
    team.set_role("Bo", "annotator")
    team.set_role("Bo", "owner", study="4f")
    bo = team.members.person("Bo")
    assert (bo.role("4f"), bo.role("00")) == ("owner", "annotator")
    team.set_role("Bo", None, study="4f")
    assert team.members.person("Bo").role("4f") == "annotator"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a" * 201, "a\x00", "\u202etxt"])
def test_names_that_cannot_be_read_are_refused(team, name):
    with pytest.raises(BadParameter, match="name must have"):
        team.invite(name, "annotator")
    with pytest.raises(BadParameter, match="name must have"):
        team.set_role(name, "annotator")


def test_other_roles_are_refused(team):
    for role in ("admin", "", "Owner", None):
        with pytest.raises(BadParameter, match="role"):
            team.set_role("Bo", role)
    assert set(ROLES) == {"annotator", "reviewer", "owner"}


def test_who_a_proxy_names_is_noted_once(team, clock):
    assert team.from_proxy("stranger") is None
    team.set_role("bo@corp.example", "annotator")
    assert team.sign_in("bo@corp.example", "") is None
    for _ in range(3):
        assert team.from_proxy("bo@corp.example", "10.0.0.7").role() == "annotator"
    clock.now += 3601
    team.from_proxy("bo@corp.example")
    came = [r.event for r in team.store.read() if isinstance(r.event, membership.SignedIn)]
    assert [e.at for e in came] == [1.8e9, 1.8e9 + 3601]


def test_another_process_knows_at_once(team, clock):
    other = Team.open(team.store.path, clock=clock)
    session = team.sign_in("Ann", WORDS)
    assert other.signed_in(session).name == "Ann"
    other.sign_out(session)
    assert team.signed_in(session) is None
    other.close()


@pytest.mark.attack("a team's file in other hands")
def test_nobody_gets_in_with_the_file_alone(team, tmp_path):
    link, session = team.invite("Bo", "owner"), team.sign_in("Ann", WORDS)
    kept = (tmp_path / "team.db").read_bytes()
    for secret in (link, session, WORDS):
        assert secret.encode() not in kept
    for digest in team.members.sessions:
        assert team.signed_in(digest) is None
    assert (tmp_path / "team.db").stat().st_mode & 0o077 == 0


@pytest.mark.attack("links used again, or guessed")
def test_one_link_used_by_two_at_once_joins_one(team):
    link, done = team.invite("Bo", "annotator"), []

    def use(words):
        try:
            done.append(team.join(link, words))
        except BadParameter as error:
            done.append(str(error))

    threads = [threading.Thread(target=use, args=(f"passphrase {n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done.count("Bo") == 1
    assert sum(team.sign_in("Bo", f"passphrase {n}") is not None for n in range(6)) == 1


def test_a_team_is_no_study_and_a_study_no_team(team, tmp_path):
    with pytest.raises(NotAStudy, match="team"):
        gw.Study.open(team.store.path)
    study = tmp_path / "labels.db"
    gw.Study.create(study, pool=[[0.0], [1.0]], classes=["a", "b"]).close()
    with pytest.raises(BadParameter, match="journal of a team"):
        Team.open(study)
    with pytest.raises(NotAStudy):
        Team.open(tmp_path / "nothing.db")


def test_hashes_keep_their_numbers_and_serve_when_these_change(team, monkeypatch):
    kept = passphrase.hash_passphrase(WORDS)
    assert kept.startswith("scrypt$16$8$3$")
    monkeypatch.setattr(passphrase, "COST", 2**5)
    assert passphrase.check_passphrase(WORDS, kept)
    assert not passphrase.check_passphrase(WORDS + " ", kept)
    assert not passphrase.check_passphrase("", "")
    assert passphrase.hash_passphrase(WORDS) != passphrase.hash_passphrase(WORDS)
    # The same letters, composed and not.
    assert passphrase.check_passphrase(
        "cafe\u0301 au lait", passphrase.hash_passphrase("caf\u00e9 au lait")
    )


def test_a_name_that_nobody_has_costs_the_same_work(team, monkeypatch):
    done = []
    real = passphrase._scrypt
    monkeypatch.setattr(
        passphrase, "_scrypt", lambda *given: done.append(given[2:]) or real(*given)
    )
    team.set_role("Cleo", "annotator")
    for name in ("Ann", "nobody", "Cleo"):
        assert team.sign_in(name, "not the one") is None
    assert len(set(done)) == 1
    assert len(done) == 3


def test_a_copy_of_the_file_is_the_team(team, tmp_path):
    session = team.sign_in("Ann", WORDS)
    shutil.copyfile(team.store.path, tmp_path / "copy.db")
    copy = Team.open(tmp_path / "copy.db", clock=team.clock)
    assert copy.signed_in(session).name == "Ann"
    copy.close()


NAMES = st.sampled_from(["Ann", "ann", "Bo", "Cleo"])


class Teams(RuleBasedStateMachine):
    """What a team says is what a dictionary says, however calls follow one another."""

    @initialize()
    def begin(self):
        import tempfile

        self.clock = Clock()
        place = f"{tempfile.mkdtemp()}/team.db"
        self.team = Team.create(place, lasts=100, clock=self.clock)
        self.people, self.sessions = {}, {}

    @rule(name=NAMES, role=st.sampled_from(ROLES), words=st.sampled_from([WORDS, "other words"]))
    def join(self, name, role, words):
        if name.lower() in self.people:
            role = self.people[name.lower()][0]
            self.team.join(self.team.invite(name), words)
        else:
            self.team.join(self.team.invite(name, role), words)
        self.people[name.lower()] = (role, words)
        self.sessions = {s: v for s, v in self.sessions.items() if v[0] != name.lower()}

    @rule(name=NAMES, words=st.sampled_from([WORDS, "other words"]))
    def sign_in(self, name, words):
        session = self.team.sign_in(name, words)
        known = self.people.get(name.lower(), (None, None))[1] == words
        assert (session is not None) == known
        if session:
            self.sessions[session] = (name.lower(), self.clock.now + 100)

    @rule(name=NAMES)
    def remove(self, name):
        try:
            self.team.remove(name)
        except BadParameter:
            owners = [n for n, (role, _) in self.people.items() if role == "owner"]
            assert name.lower() not in self.people or owners == [name.lower()]
        else:
            del self.people[name.lower()]
            self.sessions = {s: v for s, v in self.sessions.items() if v[0] != name.lower()}

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule()
    def reopen(self):
        self.team.close()
        self.team = Team.open(self.team.store.path, clock=self.clock)

    @invariant()
    def agree(self):
        if not hasattr(self, "team"):
            return
        found = {k: p.role() for k, p in self.team.members.people.items()}
        assert found == {name: role for name, (role, _) in self.people.items()}
        for session, (name, until) in self.sessions.items():
            who = self.team.signed_in(session)
            assert (who is not None) == (until > self.clock.now)
            assert who is None or who.name.lower() == name

    def teardown(self):
        if hasattr(self, "team"):
            self.team.close()


def test_a_team_is_what_its_calls_made_it():
    from hypothesis.stateful import run_state_machine_as_test

    budget = settings(max_examples=15, stateful_step_count=15, deadline=None)
    run_state_machine_as_test(Teams, settings=budget)


def test_a_guess_costs_what_it_should(monkeypatch):
    monkeypatch.undo()
    times = []
    for _ in range(3):
        begin = time.process_time()
        assert not passphrase.check_passphrase(WORDS, "")
        times.append(time.process_time() - begin)
    assert statistics.median(times) > 0.02
