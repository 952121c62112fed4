use alloc::string::ToString;

use super::*;

#[test]
fn parse_returns_the_ticket_of_the_text() {
    for ticket in
        [Ticket { at: 1_700_000_000_123_456, id: 0xff }, Ticket { at: 0, id: 0 }, Ticket { at: u64::MAX, id: u64::MAX }]
    {
        assert_eq!(Ticket::parse(&ticket.to_string()), Some(ticket));
        assert_eq!(Ticket::parse_id(&ticket.id_digits()), Some(ticket.id));
    }
    assert_eq!(Ticket { at: 17, id: 0xff }.to_string(), "17-00000000000000ff");
}

#[test]
fn parse_rejects_text_that_is_no_ticket() {
    let id = "00000000000000ff";
    assert!(Ticket::parse(&alloc::format!("17-{id}")).is_some());
    for at in ["", "+17", "-17", " 17", "17.0", "1e3", "18446744073709551616"] {
        assert_eq!(Ticket::parse(&alloc::format!("{at}-{id}")), None, "{at}");
    }
    for text in ["", "17", "17-", "17-ff", "17-00000000000000FF", "17-000000000000000ff", "17-00000000000000ff-"] {
        assert_eq!(Ticket::parse(text), None, "{text}");
    }
}

#[test]
fn earlier_tickets_come_first_and_id_digits_sort_like_ids() {
    let tickets = [(9, 0xff), (10, 0x0a), (10, 0xa0), (11, 0)].map(|(at, id)| Ticket { at, id });
    assert!(tickets.is_sorted());
    assert!(tickets[1].id_digits() < tickets[2].id_digits());
}

#[test]
fn parse_returns_the_channel_of_the_digits() {
    let channel = Channel(0xfe);
    assert_eq!(channel.digits(), "000000000000000000000000000000fe");
    assert_eq!(Channel::parse(&channel.digits()), Some(channel));
    assert_eq!(Channel::parse("fe"), None);
}

#[test]
fn a_parting_returns_its_waiter() {
    let waiter = Waiter { ticket: Ticket { at: 1, id: 2 }, channel: Channel(3), shared: true };
    assert_eq!([Parting::Leave(waiter).waiter(), Parting::Yield(waiter).waiter()], [waiter; 2]);
}

#[test]
fn a_waiter_polls_at_least_three_times_within_an_entry_lease() {
    assert!(POLL_MAX * 3 < ENTRY_LEASE);
}
